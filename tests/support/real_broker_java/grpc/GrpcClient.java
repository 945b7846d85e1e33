import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** A real client over gRPC: ENDPOINTS TOPIC PLANS COUNT; runs until its standard input is closed. */
public class GrpcClient {
    public static void main(String[] args) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(30)).build();
        String[] plans = args[2].split(",");
        Producer producer = null;
        for (int tries = 0; producer == null; tries++) {
            try {
                producer = provider.newProducerBuilder()
                    .setClientConfiguration(configuration)
                    .setTopics(args[1])
                    .setTransactionChecker(GrpcClient::checked)
                    .build();
            } catch (Exception notYet) { // a proxy that has just begun, on a machine with much else to do
                System.out.println("failed " + notYet);
                if (tries == 5) {
                    System.exit(1);
                }
            }
        }
        int count = Integer.parseInt(args[3]);
        for (int i = 0; i < count; i++) {
            String body = plans[i % plans.length] + "-" + i;
            Message message = provider.newMessageBuilder().setTopic(args[1]).setKeys(body)
                .setBody(body.getBytes(StandardCharsets.UTF_8)).build();
            Transaction transaction = producer.beginTransaction();
            SendReceipt receipt = producer.send(message, transaction);
            System.out.println("sent " + body + " " + receipt.getMessageId());
            if (body.charAt(0) == 'C') {
                transaction.commit();
            } else if (body.charAt(0) == 'R') {
                transaction.rollback();
            }
        }
        System.out.println("done");
        while (System.in.read() >= 0) {
            continue;
        }
        System.exit(0);
    }

    /** The second letter of the plan in the body. */
    static TransactionResolution checked(MessageView message) {
        ByteBuffer body = message.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        System.out.println("checked " + message.getMessageId());
        return bytes[1] == 'C' ? TransactionResolution.COMMIT
            : bytes[1] == 'R' ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
    }
}
