import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.utils.Utils;
import stillhere.v1.FrameOuterClass.DeviceKind;
import stillhere.v1.FrameOuterClass.Frame;
import stillhere.v1.FrameOuterClass.NamedRow;

/**
 * Writes a heartbeat of a user by name to Kafka, in a pipeline with --ids text.
 *
 * <pre>
 * cd schemas/examples/producers
 * mvn dependency:copy-dependencies -DoutputDirectory=lib
 * protoc -I ../../proto --java_out=. stillhere/v1/frame.proto stillhere/v1/policy.proto
 * javac -cp 'lib/*' -d out Producer.java Identity.java Signing.java stillhere/v1/*.java
 * java -cp 'out:lib/*' Producer 127.0.0.1:9092 identity.key acme ann@example.com phone
 * </pre>
 *
 * <p>Where heartbeats are signed, STILLHERE_GATEWAY_KEY_FILE names a file with the line that stillhere keys
 * gateway prints.
 *
 * <p>A device's first beat has the name of its user, and one beat in five minutes. The beats between need
 * none.
 */
public final class Producer {
  private static final String TOPIC = "presence.heartbeats";

  public static void main(String[] args) throws Exception {
    if (args.length != 5) {
      throw new IllegalArgumentException("usage: Producer BROKERS KEY-FILE TENANT NAME DEVICE");
    }
    var identity = new Identity(HexFormat.of().parseHex(Files.readString(Path.of(args[1])).strip()));
    String tenant = args[2], name = args[3], device = args[4];
    long user = identity.userId(tenant, name);
    Frame.Builder frame = Frame.newBuilder()
        .setVersion(1)
        .addUserId(user)
        .addDeviceId((int) identity.deviceId(tenant, name, device)) // unsigned
        .addDeviceKind(DeviceKind.DEVICE_KIND_MOBILE)
        .addNamed(NamedRow.newBuilder().setTenant(tenant).setName(name));
    // A producer is idempotent and waits for all copies unless told otherwise.
    Map<String, Object> settings = Map.of("bootstrap.servers", args[0]);
    try (var producer = new KafkaProducer<>(settings, new LongSerializer(), new ByteArraySerializer())) {
      byte[] value = frame.build().toByteArray();
      Integer partition = null; // by the key
      String keyFile = System.getenv("STILLHERE_GATEWAY_KEY_FILE");
      if (keyFile != null && !keyFile.isEmpty()) {
        var signer = new Signing(Files.readString(Path.of(keyFile)));
        long now = System.currentTimeMillis();
        frame.setGatewayId(signer.gatewayId).setGatewayEpochMs(now); // when its process started
        byte[] key = new LongSerializer().serialize(TOPIC, user);
        partition = Utils.toPositive(Utils.murmur2(key)) % producer.partitionsFor(TOPIC).size();
        value = signer.sign(frame.build().toByteArray(), TOPIC, partition, now);
      }
      producer.send(new ProducerRecord<>(TOPIC, partition, user, value)).get();
    }
  }
}
