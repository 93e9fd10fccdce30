import { both } from "./pipelines.js";

both("int", (n) => [
  String(900719925474099300n + BigInt(n) * 10n),
  String(9007199254740993n + BigInt(n) * 10n),
  `${n}03`,
]);
