import apache.rocketmq.v2.Encoding;
import apache.rocketmq.v2.Message;
import apache.rocketmq.v2.MessageType;
import apache.rocketmq.v2.MessagingServiceGrpc;
import apache.rocketmq.v2.Resource;
import apache.rocketmq.v2.SendMessageRequest;
import apache.rocketmq.v2.SendMessageResponse;
import apache.rocketmq.v2.SystemProperties;
import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.zip.GZIPOutputStream;

/** Halves with GZIP bodies over the protocol itself: the Java client compresses none. PORT TOPIC COUNT. */
public class GzipSender {
    public static void main(String[] args) throws Exception {
        ManagedChannel channel =
            ManagedChannelBuilder.forAddress("127.0.0.1", Integer.parseInt(args[0])).usePlaintext().build();
        Metadata metadata = new Metadata();
        metadata.put(Metadata.Key.of("x-mq-client-id", Metadata.ASCII_STRING_MARSHALLER), "gzip@1");
        metadata.put(Metadata.Key.of("x-mq-language", Metadata.ASCII_STRING_MARSHALLER), "JAVA");
        MessagingServiceGrpc.MessagingServiceBlockingStub stub = MessagingServiceGrpc.newBlockingStub(channel)
            .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            String body = "UU-gzip-" + i + "-" + "compressed".repeat(100);
            ByteArrayOutputStream packed = new ByteArrayOutputStream();
            try (GZIPOutputStream gzip = new GZIPOutputStream(packed)) {
                gzip.write(body.getBytes(StandardCharsets.UTF_8));
            }
            long now = System.currentTimeMillis();
            String id = String.format("01AABBCCDDEEFF%020d", now * 1000 + i);
            SystemProperties properties = SystemProperties.newBuilder().setMessageId(id)
                .setMessageType(MessageType.TRANSACTION).setBodyEncoding(Encoding.GZIP).setBornHost("gzip")
                .setBornTimestamp(Timestamp.newBuilder().setSeconds(now / 1000).setNanos((int) (now % 1000) * 1_000_000))
                .build();
            Message message = Message.newBuilder().setTopic(Resource.newBuilder().setName(args[1]))
                .setSystemProperties(properties).setBody(ByteString.copyFrom(packed.toByteArray())).build();
            SendMessageResponse answer = stub.sendMessage(SendMessageRequest.newBuilder().addMessages(message).build());
            System.out.println("sent UU-" + i + " " + (answer.getEntriesCount() > 0 ? answer.getEntries(0).getMessageId()
                : answer.getStatus().getMessage().replace(' ', '_')));
        }
        System.out.println("done");
        channel.shutdownNow();
    }
}
