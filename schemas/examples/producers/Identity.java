import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * The user id of a name in a pipeline with --ids text, as producers straight to Kafka need it.
 *
 * <p>The id is the upper 63 bits of SipHash-2-4 of tenant, a zero byte and name; 1 if these are 0.
 * The Kafka key of the user's records is the id as 8 bytes big-endian (LongSerializer).
 */
public final class Identity {
  private final long k0, k1;
  private long v0, v1, v2, v3;

  /** key has 16 bytes. An instance is not safe for concurrent use. */
  public Identity(byte[] key) {
    ByteBuffer words = ByteBuffer.wrap(key).order(ByteOrder.LITTLE_ENDIAN);
    k0 = words.getLong();
    k1 = words.getLong();
  }

  public long userId(String tenant, String name) {
    return Math.max(1, siphash(tenant + "\0" + name) >>> 1);
  }

  /** The device id, an unsigned 32-bit integer. */
  public long deviceId(String tenant, String name, String device) {
    return Math.max(1, siphash(tenant + "\0" + name + "\0" + device) >>> 32);
  }

  private long siphash(String text) {
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    v0 = k0 ^ 0x736f6d6570736575L;
    v1 = k1 ^ 0x646f72616e646f6dL;
    v2 = k0 ^ 0x6c7967656e657261L;
    v3 = k1 ^ 0x7465646279746573L;
    byte[] padded = Arrays.copyOf(data, (data.length / 8 + 1) * 8);
    padded[padded.length - 1] = (byte) data.length;
    ByteBuffer words = ByteBuffer.wrap(padded).order(ByteOrder.LITTLE_ENDIAN);
    while (words.hasRemaining()) {
      long word = words.getLong();
      v3 ^= word;
      rounds(2);
      v0 ^= word;
    }
    v2 ^= 0xff;
    rounds(4);
    return v0 ^ v1 ^ v2 ^ v3;
  }

  private void rounds(int n) {
    for (; n > 0; n--) {
      v0 += v1; v1 = Long.rotateLeft(v1, 13) ^ v0; v0 = Long.rotateLeft(v0, 32);
      v2 += v3; v3 = Long.rotateLeft(v3, 16) ^ v2;
      v0 += v3; v3 = Long.rotateLeft(v3, 21) ^ v0;
      v2 += v1; v1 = Long.rotateLeft(v1, 17) ^ v2; v2 = Long.rotateLeft(v2, 32);
    }
  }

  /** Identity.java vectors.tsv: compares with the published ids. The first line is the key. */
  public static void main(String[] args) throws Exception {
    var lines = Files.readAllLines(Path.of(args[0]));
    var identity = new Identity(HexFormat.of().parseHex(lines.get(0)));
    for (String line : lines.subList(1, lines.size())) {
      String[] v = line.split("\t", -1);
      long user = identity.userId(v[0], v[1]), device = identity.deviceId(v[0], v[1], v[2]);
      if (user != Long.parseLong(v[3]) || device != Long.parseLong(v[4])) {
        throw new AssertionError(line + ": got " + user + ", " + device);
      }
    }
    System.out.println(lines.size() - 1 + " ids are as published");
  }
}
