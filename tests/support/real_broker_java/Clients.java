import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/** Real clients for the tests, each run until its standard input is closed. Lines on stdout tell what they did. */
public class Clients {
    public static void main(String[] args) {
        try {
            run(args);
        } catch (Exception failure) {
            failure.printStackTrace(System.out);
            System.exit(1); // the client's own threads would keep the process
        }
        System.exit(0);
    }

    /** Properties that go with each message that is produced, those among them that clients may not set. */
    static final Map<String, String> MORE = new HashMap<>();

    static void run(String[] args) throws Exception {
        switch (args[0]) {
            case "with" -> {
                MORE.put(args[1], args[2]);
                run(Arrays.copyOfRange(args, 3, args.length));
            }
            case "poison" -> poison(args[1], args[2], args[3]);
            case "produce" -> produce(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), Long.parseLong(args[6]), false);
            case "trace" -> produce(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), Long.parseLong(args[6]), true);
            case "consume" -> consume(args[1], args[2], args[3]);
            case "fill" -> fill(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]));
            case "pull" -> pull(args[1], args[2], false);
            case "list" -> pull(args[1], args[2], true);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** Signs requests where the environment has keys. */
    static RPCHook signature() {
        String key = System.getenv("ACCESS_KEY");
        return key == null ? null : new AclClientRPCHook(new SessionCredentials(key, System.getenv("SECRET_KEY")));
    }

    /** How long a late commit takes: longer than the broker waits before it asks. */
    static final long LATE_MS = 2500;

    /** Body `PLAN-i`: first letter the state at once, second the answer to checks; C, L (late) commit, R rollback, U unknown. */
    static LocalTransactionState state(char letter) {
        return letter == 'C' || letter == 'L' ? LocalTransactionState.COMMIT_MESSAGE
            : letter == 'R' ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    /** Sends `count` transactional messages, plans in turn, a pause after each, and answers checks; perhaps traces. */
    static void produce(String namesrv, String group, String topic, String plans, int count, long pause, boolean traces)
        throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(null, group, signature(), traces, null);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(group + System.nanoTime());
        producer.setSendMsgTimeout(30000);
        producer.setRetryTimesWhenSendFailed(0); // a second try may leave an orphan twin (R66)
        producer.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                char letter = (char) message.getBody()[0];
                if (letter == 'L') {
                    sleep(LATE_MS);
                }
                return state(letter);
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
            MORE.forEach((name, value) -> MessageAccessor.putProperty(message, name, value));
            System.out.println("sent " + body + " " + producer.sendMessageInTransaction(message, null).getMsgId());
            sleep(pause);
        }
        System.out.println("done");
        untilStopped();
        producer.shutdown();
    }

    /** Sends one half whose properties leave no room for what a check adds to them: its copy cannot be stored. */
    static void poison(String namesrv, String group, String topic) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }
            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        for (int size = 32760; size > 32000; size -= 8) {
            Message message = new Message(topic, "t", "poison", "UC-poison".getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("p", "x".repeat(size));
            try {
                System.out.println("sent UC-poison " + producer.sendMessageInTransaction(message, null).getMsgId());
                break;
            } catch (MQClientException tooLong) {
                continue;
            }
        }
        System.out.println("done");
        untilStopped();
        producer.shutdown();
    }

    /** Tells every message it gets: its transaction, its place. */
    static void consume(String namesrv, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                tell(message);
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

    /** Pulls whole topics, queue after queue, as RocketMQ's own pull client does; tells count and milliseconds. */
    static void pull(String namesrv, String topics, boolean tellsEach) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("CG_PULL");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>();
        for (String topic : topics.split(",")) {
            try {
                queues.addAll(consumer.fetchSubscribeMessageQueues(topic));
            } catch (MQClientException nobodyWroteToIt) {
                System.out.println("absent " + topic);
            }
        }
        long begun = System.nanoTime();
        long count = 0;
        for (MessageQueue queue : queues) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                for (MessageExt message : result.getMsgFoundList() == null ? List.<MessageExt>of() : result.getMsgFoundList()) {
                    count++;
                    if (tellsEach) {
                        tell(message);
                    }
                }
                offset = result.getNextBeginOffset();
            }
        }
        System.out.println("pulled " + count + " " + (System.nanoTime() - begun) / 1_000_000);
        consumer.shutdown();
    }

    /** Which transaction's message it is, and its place; of an op the offsets of the halves that it ends. */
    static void tell(MessageExt message) {
        if (message.getTopic().equals("RMQ_SYS_TRANS_OP_HALF_TOPIC")) {
            System.out.println("ended " + message.getQueueId()
                + " " + new String(message.getBody(), StandardCharsets.UTF_8).replace(',', ' '));
            return;
        }
        System.out.println("got " + message.getProperty("UNIQ_KEY") + " " + message.getTopic()
            + " " + message.getQueueId() + ":" + message.getQueueOffset());
    }

    static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void untilStopped() throws Exception {
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
