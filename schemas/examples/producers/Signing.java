import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Signs a frame with a gateway's key, as producers straight to Kafka need it where frames are signed.
 *
 * <p>stillhere keys gateway prints the key: gateway id, key id and secret. The frame's gateway_id must be that
 * gateway id. The MAC covers the partition, so the producer has to choose it.
 */
public final class Signing {
  public final String gatewayId, keyId;
  private final byte[] secret;

  public Signing(String text) {
    String line = text.strip();
    int last = line.lastIndexOf('/'), middle = line.lastIndexOf('/', last - 1);
    gatewayId = line.substring(0, middle);
    keyId = line.substring(middle + 1, last);
    secret = HexFormat.of().parseHex(line.substring(last + 1));
  }

  /** frame is an encoded Frame without key_id, sealed_at_ms and mac; atMillis is now. */
  public byte[] sign(byte[] frame, String topic, int partition, long atMillis) throws GeneralSecurityException {
    byte[] key = keyId.getBytes(StandardCharsets.UTF_8);
    var signed = new ByteArrayOutputStream();
    signed.writeBytes(frame);
    signed.writeBytes(new byte[] {(byte) 0xba, 0x01}); // field 23
    varint(signed, key.length);
    signed.writeBytes(key);
    signed.writeBytes(new byte[] {(byte) 0x80, 0x01}); // field 16
    varint(signed, atMillis);
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(secret, "HmacSHA256"));
    mac.update(("stillhere frame v1\0" + topic + "\0").getBytes(StandardCharsets.UTF_8));
    mac.update(ByteBuffer.allocate(4).putInt(partition).array());
    byte[] sum = mac.doFinal(signed.toByteArray());
    signed.writeBytes(new byte[] {(byte) 0xc2, 0x01, 16}); // field 24, which has to come last
    signed.write(sum, 0, 16);
    return signed.toByteArray();
  }

  private static void varint(ByteArrayOutputStream to, long number) {
    for (; number > 0x7f; number >>>= 7) {
      to.write((int) (number & 0x7f | 0x80));
    }
    to.write((int) number);
  }

  /** Signing.java vectors.tsv: compares with the published frames. The first line is the master. */
  public static void main(String[] args) throws Exception {
    var lines = Files.readAllLines(Path.of(args[0]));
    for (String line : lines.subList(1, lines.size())) {
      String[] v = line.split("\t", -1);
      byte[] got = new Signing(v[0]).sign(HexFormat.of().parseHex(v[4]), v[1], Integer.parseInt(v[2]), Long.parseLong(v[3]));
      if (!HexFormat.of().formatHex(got).equals(v[5])) {
        throw new AssertionError(line + ": got " + HexFormat.of().formatHex(got));
      }
    }
    System.out.println(lines.size() - 1 + " signed frames are as published");
  }
}
