import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Real clients for the tests, each run until its standard input is closed. Lines on stdout tell what they did. */
public class Clients {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "produce" -> produce(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]));
            case "consume" -> consume(args[1], args[2], args[3]);
            case "fill" -> fill(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]));
            case "pull" -> pull(args[1], args[2]);
            default -> throw new IllegalArgumentException(args[0]);
        }
        System.exit(0);
    }

    /** Body `PLAN-i`: first letter the state at once, second the answer to checks; C commit, R rollback, U unknown. */
    static LocalTransactionState state(char letter) {
        return letter == 'C' ? LocalTransactionState.COMMIT_MESSAGE
            : letter == 'R' ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    /** Sends `count` transactional messages, plans in turn, and answers checks. */
    static void produce(String namesrv, String group, String topic, String plans, int count) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + System.nanoTime());
        producer.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state((char) message.getBody()[0]);
            }
            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                System.out.println("checked " + message.getTransactionId());
                return state((char) message.getBody()[1]);
            }
        });
        producer.start();
        String[] all = plans.split(",");
        for (int i = 0; i < count; i++) {
            String body = all[i % all.length] + "-" + i;
            Message message = new Message(topic, "t", body, body.getBytes(StandardCharsets.UTF_8));
            System.out.println("sent " + body + " " + producer.sendMessageInTransaction(message, null).getMsgId());
        }
        System.out.println("done");
        untilStopped();
        producer.shutdown();
    }

    /** Tells every message it gets. */
    static void consume(String namesrv, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println("got " + message.getProperty("UNIQ_KEY"));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("done");
        untilStopped();
        consumer.shutdown();
    }

    /** Sends `count` plain messages of `size` bytes in batches. */
    static void fill(String namesrv, String topic, int count, int size) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("GID_FILL");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(20000);
        producer.start();
        byte[] body = "x".repeat(size).getBytes(StandardCharsets.UTF_8);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, "t", "k" + i, body));
            if (batch.size() == 500 || i == count - 1) {
                producer.send(batch);
                batch = new ArrayList<>();
            }
        }
        System.out.println("done");
        producer.shutdown();
    }

    /** Pulls a whole topic, queue after queue, as RocketMQ's own pull client does; tells count and milliseconds. */
    static void pull(String namesrv, String topic) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("CG_PULL");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        long begun = System.nanoTime();
        long count = 0;
        for (MessageQueue queue : queues) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                count += result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
                offset = result.getNextBeginOffset();
            }
        }
        System.out.println("pulled " + count + " " + (System.nanoTime() - begun) / 1_000_000);
        consumer.shutdown();
    }

    static void untilStopped() throws Exception {
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
