// Holds the objects of Strimzi, KEDA and the External Secrets Operator against validators that are made of their CRDs:
//
//   npm install --prefix DIR @kubernetes-models/strimzi-kafka-operator@1.0.1 @kubernetes-models/keda@0.4.2 \
//     @kubernetes-models/external-secrets@0.5.2
//   STILLHERE_RENDERED=OUT go test . && node crds.mjs DIR OUT/*/all.json
import {readFileSync} from "node:fs";

const [modules, ...files] = process.argv.slice(2);
const from = (path) => import(`${modules}/node_modules/@kubernetes-models/${path}`);
const strimzi = await from("strimzi-kafka-operator/kafka.strimzi.io/v1/index.js");
const keda = await from("keda/keda.sh/v1alpha1/index.mjs");
const secrets = await from("external-secrets/external-secrets.io/v1beta1/index.mjs");
const kinds = {
  KafkaTopic: (o) => new strimzi.KafkaTopic(o),
  KafkaUser: (o) => new strimzi.KafkaUser(o),
  ScaledObject: (o) => new keda.ScaledObject(o),
  // v1 has all the fields of v1beta1 that the chart uses; its CRD is in no registry.
  ExternalSecret: (o) => new secrets.ExternalSecret({...o, apiVersion: "external-secrets.io/v1beta1"}),
};
let passed = 0, failed = 0;
for (const file of files) {
  for (const object of JSON.parse(readFileSync(file)).filter((o) => kinds[o.kind])) {
    try {
      kinds[object.kind](object).validate();
      passed++;
    } catch (fault) {
      console.error(`${file}: ${object.kind} ${object.metadata.name}: ${fault.message}`);
      failed++;
    }
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed || !passed ? 1 : 0);
