import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * A real SimpleConsumer over gRPC, which consumes by POP: ENDPOINTS GROUP TOPIC KEPT INVISIBLE; of the messages that come
 * for the first time it keeps the first KEPT to itself for INVISIBLE seconds, the others it acknowledges.
 */
public class GrpcConsumer {
    /** Why, as the client says it in several places. */
    static String causes(Throwable failure) {
        StringBuilder words = new StringBuilder();
        for (Throwable each = failure.getCause(); each != null; each = each.getCause()) {
            words.append(" <- ").append(each);
        }
        for (Throwable each : failure.getSuppressed()) {
            words.append(" + ").append(each).append(causes(each));
        }
        return words.toString();
    }

    public static void main(String[] args) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(30)).build();
        SimpleConsumer consumer = null;
        for (int tries = 0; consumer == null; tries++) {
            try {
                consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                    .setConsumerGroup(args[1]).setAwaitDuration(Duration.ofSeconds(5))
                    .setSubscriptionExpressions(Map.of(args[2], FilterExpression.SUB_ALL)).build();
            } catch (Exception notYet) { // a proxy that has just begun, on a machine with much else to do
                System.out.println("failed " + notYet + causes(notYet));
                if (tries == 5) {
                    System.exit(1);
                }
            }
        }
        int kept = Integer.parseInt(args[3]);
        Duration invisible = Duration.ofSeconds(Long.parseLong(args[4]));
        System.out.println("done");
        while (System.in.available() == 0) {
            List<MessageView> messages;
            try {
                messages = consumer.receive(8, invisible);
            } catch (Exception busy) {
                System.out.println("failed " + busy);
                continue;
            }
            for (MessageView message : messages) {
                boolean isFirst = message.getDeliveryAttempt() == 1;
                if (isFirst && kept > 0) {
                    kept--;
                    System.out.println("kept " + message.getMessageId());
                } else {
                    consumer.ack(message);
                    System.out.println("got " + message.getMessageId() + " " + message.getDeliveryAttempt());
                }
            }
        }
        System.exit(0);
    }
}
