/* The envelopes of training runs: the form of each member, and its relation to earlier envelopes. */
#include "tests/support/made_run.h"

#define LETTERS_25  "abcdefghijklmnopqrstuvwxy"
#define LETTERS_125 LETTERS_25 LETTERS_25 LETTERS_25 LETTERS_25 LETTERS_25
#define A64         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ALICE       "ext:345794e1bae062269a8796a7313dbed5f5d151d6272282749a4307871eccc5f9" /* the requester */
#define ID          "\"00000000-0000-4000-8000-000000000009\""
#define BIN         "predicate.buildDefinition."
#define RUN         "predicate.runDetails."

static const struct row {
    const char *name;
    enum run_type type;
    const char *path, *value;
    enum error_kind kind; /* ERROR_NONE: it is valid */
    const char *says;
    bool is_stale; /* the envelope keeps its digests of earlier envelopes */
} rows[] = {
    {"as it is", RUN_REQUEST, "nonce",
     "\""
     "00112233445566778899aabbccddeeff"
     "\"",
     ERROR_NONE, "", false},
    /* forms */
    {"a member that is not known", RUN_REQUEST, "critical", "true", ERROR_INVALID, "the member critical is not known", false},
    {"one deep inside", RUN_ORDER, "spec.limits.more", "1", ERROR_INVALID, "the member more is not known", false},
    {"one in a result", RUN_RESULT, RUN "more", "1", ERROR_INVALID, "the member more is not known", false},
    {"a missing member", RUN_REQUEST, "nonce", NULL, ERROR_INVALID, "nonce is missing", false},
    {"a fraction", RUN_REQUEST, "spec.limits.cpus", "1.5", ERROR_INVALID, "", false},
    {"a number that is text", RUN_REQUEST, "spec.limits.cpus", "\"2\"", ERROR_INVALID, "cpus: a whole number from 1 to 4096",
     false},
    {"a number too large", RUN_REQUEST, "spec.limits.time_s", "2592001", ERROR_INVALID, "time_s", false},
    {"a number below 0", RUN_REQUEST, "spec.limits.log_bytes", "-1", ERROR_INVALID, "log_bytes", false},
    {"another schema", RUN_LEASE, "schema", "\"sijil.run-lease/v2\"", ERROR_INVALID, "schema", false},
    {"an upper-case UUID", RUN_REQUEST, "run", "\"3D0C2F1A-9B1E-4A57-8A43-0D6F5F0C7A11\"", ERROR_INVALID, "run: a UUID", false},
    {"the UUID of zeros", RUN_REQUEST, "run", "\"00000000-0000-0000-0000-000000000000\"", ERROR_INVALID, "run: a UUID", false},
    {"a short digest", RUN_REQUEST, "spec.code.digest", "\"sha256:aa\"", ERROR_INVALID, "digest", false},
    {"a tag instead of a digest", RUN_REQUEST, "spec.code.digest", "\"latest\"", ERROR_INVALID, "digest", false},
    {"a digest in capitals", RUN_REQUEST, "spec.code.digest", "\"sha256:AAAA\"", ERROR_INVALID, "digest", false},
    {"a time without milliseconds", RUN_REQUEST, "issued_at", "\"2026-11-23T09:00:00Z\"", ERROR_INVALID, "issued_at", false},
    {"a time with an offset", RUN_REQUEST, "issued_at", "\"2026-11-23T13:00:00.000+04:00\"", ERROR_INVALID, "issued_at", false},
    {"a time that does not exist", RUN_REQUEST, "issued_at", "\"2026-02-30T09:00:00.000Z\"", ERROR_INVALID, "issued_at", false},
    {"a project of three names", RUN_REQUEST, "project", "\"acme/models/a\"", ERROR_INVALID, "project", false},
    {"a repository of two names", RUN_REQUEST, "spec.code.repository", "\"acme/models\"", ERROR_INVALID, "repository", false},
    {"a repository with ..", RUN_REQUEST, "spec.code.repository", "\"acme/../x\"", ERROR_INVALID, "repository", false},
    {"a principal of another kind", RUN_REQUEST, "requester", "\"user:alice\"", ERROR_INVALID, "requester", false},
    {"a short nonce", RUN_ORDER, "nonce", "\"00\"", ERROR_INVALID, "nonce", false},
    {"code by its tag", RUN_REQUEST, "spec.code.reference", "\"acme/models/code:v1\"", ERROR_INVALID, "reference", false},
    {"an empty argv", RUN_REQUEST, "spec.argv", "[]", ERROR_INVALID, "argv", false},
    {"a variable in lower case", RUN_REQUEST, "spec.environment.path", "\"x\"", ERROR_INVALID, "environment", false},
    {"a variable that begins with a digit", RUN_REQUEST, "spec.environment.1A", "\"x\"", ERROR_INVALID, "environment", false},
    {"a variable of the sandbox", RUN_REQUEST, "spec.environment.SIJIL_CODE", "\"x\"", ERROR_INVALID, "begin with SIJIL_", false},
    {"a variable that is a number", RUN_REQUEST, "spec.environment.SEED", "7", ERROR_INVALID, "SEED", false},
    {"no output", RUN_REQUEST, "spec.outputs", "[]", ERROR_INVALID, "outputs", false},
    {"an output called log", RUN_REQUEST, "spec.outputs.0.name", "\"log\"", ERROR_INVALID, "neither log nor metrics", false},
    {"an input twice", RUN_REQUEST, "spec.inputs.1",
     "{\"name\":\"digits\",\"repository\":\"acme/models/b\",\"digest\":\"sha256:" A64 "\"}", ERROR_INVALID, "no two equal",
     false},
    {"inputs out of order", RUN_REQUEST, "spec.inputs.1",
     "{\"name\":\"a\",\"repository\":\"acme/models/b\",\"digest\":\"sha256:" A64 "\"}", ERROR_INVALID, "sorted", false},
    {"jurisdictions out of order", RUN_REQUEST, "spec.jurisdictions", "[\"DIFC\",\"AE\"]", ERROR_INVALID, "sorted", false},
    {"an output of the longest media type", RUN_REQUEST, "spec.outputs.0.type", "\"a/" LETTERS_125 "\"", ERROR_NONE, "", false},
    {"one byte more", RUN_REQUEST, "spec.outputs.0.type", "\"ab/" LETTERS_125 "\"", ERROR_INVALID, "a media type", false},
    {"a media type without a subtype", RUN_REQUEST, "spec.outputs.0.type", "\"application\"", ERROR_INVALID, "a media type",
     false},
    {"with an empty subtype", RUN_REQUEST, "spec.outputs.0.type", "\"text/\"", ERROR_INVALID, "a media type", false},
    {"with parameters", RUN_REQUEST, "spec.outputs.0.type", "\"text/plain;charset=utf-8\"", ERROR_INVALID, "a media type", false},
    {"that only admissions have", RUN_REQUEST, "spec.outputs.0.type", "\"application/vnd.sijil.run-log.v1\"", ERROR_INVALID,
     "none of application/vnd.sijil.run-", false},
    {"the same in capitals", RUN_REQUEST, "spec.outputs.0.type", "\"Application/VND.sijil.RUN-x\"", ERROR_INVALID, "a media type",
     false},
    {"another one of ours", RUN_REQUEST, "spec.outputs.0.type", "\"application/vnd.sijil.runner.v1+json\"", ERROR_NONE, "",
     false},
    {"of two slashes", RUN_REQUEST, "spec.outputs.0.type", "\"a/b/c\"", ERROR_INVALID, "a media type", false},
    {"that begins with a point", RUN_REQUEST, "spec.outputs.0.type", "\".a/b\"", ERROR_INVALID, "a media type", false},
    {"with a blank", RUN_REQUEST, "spec.outputs.0.type", "\"a a/b\"", ERROR_INVALID, "a media type", false},
    {"no jurisdiction", RUN_ORDER, "jurisdictions", "[]", ERROR_INVALID, "jurisdictions", false},
    {"a jurisdiction in lower case", RUN_REQUEST, "spec.jurisdictions", "[\"ae\"]", ERROR_INVALID, "jurisdictions", false},
    {"an unknown isolation", RUN_REQUEST, "spec.isolation", "\"vm\"", ERROR_INVALID, "isolation", false},
    {"an assurance of 5", RUN_REQUEST, "spec.assurance", "5", ERROR_INVALID, "assurance", false},
    {"a network of its own", RUN_REQUEST, "spec.network", "\"host\"", ERROR_INVALID, "network", false},
    {"257 nodes", RUN_REQUEST, "spec.nodes", "257", ERROR_INVALID, "nodes", false},
    {"devices of no number", RUN_REQUEST, "spec.devices.count", "0", ERROR_INVALID, "count", false},
    {"another build type", RUN_RESULT, BIN "buildType", "\"urn:other\"", ERROR_INVALID, "buildType", false},
    {"another predicate", RUN_RESULT, "predicateType", "\"https://slsa.dev/provenance/v0.2\"", ERROR_INVALID, "predicateType",
     false},
    {"no subject", RUN_RESULT, "subject", "[]", ERROR_INVALID, "subject", false},
    {"an exit status of 256", RUN_RESULT, RUN "sijil_outcome.exit", "256", ERROR_INVALID, "exit", false},
    {"an unknown status", RUN_RESULT, RUN "sijil_outcome.status", "\"fine\"", ERROR_INVALID, "status", false},
    {"a summary that failed", RUN_ADMISSION, "predicate.verificationResult", "\"FAILED\"", ERROR_INVALID, "PASSED", false},
    /* request */
    {"a request that never expires", RUN_REQUEST, "expires", "\"2026-12-24T09:00:00.000Z\"", ERROR_DENIED, "at most 30 days",
     false},
    {"a request that ends before it begins", RUN_REQUEST, "expires", "\"2026-11-23T09:00:00.000Z\"", ERROR_DENIED, "expires",
     false},
    {"an output of another project", RUN_REQUEST, "spec.outputs.0.repository", "\"acme/other/digits\"", ERROR_DENIED,
     "is not in the project", false},
    {"one of a project with a longer name", RUN_REQUEST, "spec.outputs.0.repository", "\"acme/models2/digits\"", ERROR_DENIED,
     "is not in the project", false},
    {"a request with the claims of another person", RUN_REQUEST, "claims",
     "{\"issuer\":\"https://id.example\",\"subject\":\"mallory\",\"token\":\"sha256:" A64 "\"}", ERROR_DENIED,
     "claims are of another person", false},
    {"the claims of the requester, with its hash", RUN_REQUEST, "claims",
     "{\"issuer\":\"https://id.example\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_DENIED,
     "the policies ask for a request that its requester has signed", false},
    {"earlier ones, with its name", RUN_REQUEST, "claims",
     "{\"issuer\":\"https://id.example\",\"subject\":\"alice\",\"token\":\"sha256:" A64 "\"}", ERROR_DENIED,
     "the policies ask for a request that its requester has signed", false},
    {"a hash for a trust rule", RUN_REQUEST, "claims",
     "{\"issuer\":\"sijil:rule\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_DENIED,
     "claims are of another person", false},
    {"a hash for a robot", RUN_REQUEST, "claims",
     "{\"issuer\":\"sijil:registry\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_DENIED,
     "claims are of another person", false},
    {"an issuer like that of trust rules", RUN_REQUEST, "claims",
     "{\"issuer\":\"sijil:Rule\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    {"the same with a blank", RUN_REQUEST, "claims",
     "{\"issuer\":\"sijil:rule \",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    {"an issuer that is no URL", RUN_REQUEST, "claims",
     "{\"issuer\":\"x\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    {"a URL without TLS", RUN_REQUEST, "claims",
     "{\"issuer\":\"http://id.example\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    {"a URL of nothing", RUN_REQUEST, "claims",
     "{\"issuer\":\"https://\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    {"a URL of two lines", RUN_REQUEST, "claims",
     "{\"issuer\":\"https://id.example\\nx\",\"subject\":\"" ALICE "\",\"token\":\"sha256:" A64 "\"}", ERROR_INVALID,
     "issuer: sijil:registry, sijil:rule, or https://", false},
    /* approval */
    {"an approval of another request", RUN_APPROVAL, "request", "\"sha256:" A64 "\"", ERROR_DENIED, "names another request",
     true},
    {"one of another run", RUN_APPROVAL, "run", ID, ERROR_DENIED, "run is not that of the request", false},
    {"one for another registry", RUN_APPROVAL, "audience", "\"other.example/audit\"", ERROR_DENIED, "audience", false},
    {"one by the requester", RUN_APPROVAL, "approver", "\"ext:345794e1bae062269a8796a7313dbed5f5d151d6272282749a4307871eccc5f9\"",
     ERROR_DENIED, "can't approve their own", false},
    {"one before the request", RUN_APPROVAL, "issued_at", "\"2026-11-23T08:58:59.000Z\"", ERROR_DENIED, "not within the life",
     false},
    {"one a little before it, by another clock", RUN_APPROVAL, "issued_at", "\"2026-11-23T08:59:30.000Z\"", ERROR_NONE, "",
     false},
    {"one that ended before the order", RUN_APPROVAL, "expires", "\"2026-11-23T09:59:59.000Z\"", ERROR_DENIED,
     "order: it is not within the life of the approval", false},
    /* order */
    {"an order of another request", RUN_ORDER, "request", "\"sha256:" A64 "\"", ERROR_DENIED, "names another request", true},
    {"one with another approval", RUN_ORDER, "approvals", "[\"sha256:" A64 "\"]", ERROR_DENIED, "approval 1 is another", true},
    {"one without its approval", RUN_ORDER, "approvals", "[]", ERROR_DENIED, "it names 0 approvals, and there are 1", true},
    {"one with another argument", RUN_ORDER, "spec.argv.1", "\"other.py\"", ERROR_DENIED, "spec is not that of the request",
     false},
    {"one with one more argument", RUN_ORDER, "spec.argv.4", "\"--more\"", ERROR_DENIED, "spec is not that of the request",
     false},
    {"one with one more variable", RUN_ORDER, "spec.environment.LD_PRELOAD", "\"x\"", ERROR_DENIED, "spec is not", false},
    {"one with other code", RUN_ORDER, "spec.code.digest", "\"sha256:" A64 "\"", ERROR_DENIED, "spec is not", false},
    {"one without the image", RUN_ORDER, "spec.image", NULL, ERROR_DENIED, "spec is not that of the request", false},
    {"one with a larger limit", RUN_ORDER, "spec.limits.time_s", "601", ERROR_DENIED, "spec is not", false},
    {"one of another pool", RUN_ORDER, "spec.pool", "\"other\"", ERROR_DENIED, "spec is not that of the request", false},
    {"one for another person", RUN_ORDER, "requester", "\"robot:3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11\"", ERROR_DENIED,
     "requester is not", false},
    {"one of another project", RUN_ORDER, "project", "\"acme/other\"", ERROR_DENIED, "project is not", false},
    {"one that needs two approvals", RUN_ORDER, "obligations.approvals", "2", ERROR_DENIED,
     "ask for 2 approvals, and there are 1", false},
    {"one where the request does not allow", RUN_ORDER, "jurisdictions", "[\"ADGM\"]", ERROR_DENIED,
     "does not allow the jurisdiction ADGM", false},
    {"one in fewer places", RUN_ORDER, "jurisdictions", "[\"DIFC\"]", ERROR_NONE, "", false},
    {"one after the request", RUN_ORDER, "not_before", "\"2026-11-30T09:00:00.000Z\"", ERROR_DENIED, "", false},
    /* lease */
    {"a lease of another order", RUN_LEASE, "order", "\"sha256:" A64 "\"", ERROR_DENIED, "names another order", true},
    {"one of another run", RUN_LEASE, "run", ID, ERROR_DENIED, "run is not that of the order", false},
    {"one of an attempt too many", RUN_LEASE, "attempt", "4", ERROR_DENIED, "allows no attempt 4", false},
    {"one of a node too many", RUN_LEASE, "node", "1", ERROR_DENIED, "has no node 1", false},
    {"one before the order", RUN_LEASE, "not_before", "\"2026-11-23T09:59:59.999Z\"", ERROR_DENIED, "not within the order's",
     false},
    {"one after the order", RUN_LEASE, "expires", "\"2026-11-24T10:00:00.001Z\"", ERROR_DENIED, "not within the order's", false},
    {"one for another key", RUN_LEASE, "runner.key", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", ERROR_DENIED,
     "the lease is for another key", false},
    {"one for another runner", RUN_LEASE, "runner.id", ID, ERROR_DENIED, "its runner is not that of the lease", false},
    /* result */
    /* certificate */
    {"a certificate of another order", RUN_CERTIFICATE, "order", "\"sha256:" A64 "\"", ERROR_DENIED, "names another order", true},
    {"one of another lease", RUN_CERTIFICATE, "lease", "\"sha256:" A64 "\"", ERROR_DENIED, "names another lease", true},
    {"one of another run", RUN_CERTIFICATE, "run", ID, ERROR_DENIED, "run is not that of the lease", false},
    {"one for another registry", RUN_CERTIFICATE, "audience", "\"other.example/audit\"", ERROR_DENIED, "audience", false},
    {"one of another attempt", RUN_CERTIFICATE, "attempt", "2", ERROR_DENIED, "attempt is not that of the lease", false},
    {"one of another node", RUN_CERTIFICATE, "node", "1", ERROR_DENIED, "node is not that of the lease", false},
    {"one without a lease", RUN_CERTIFICATE, "lease", NULL, ERROR_INVALID, "lease is missing", true},
    {"one from before the lease", RUN_CERTIFICATE, "not_before", "\"2026-11-23T10:00:59.999Z\"", ERROR_DENIED,
     "not within the lease's", false},
    {"one from after the lease", RUN_CERTIFICATE, "expires", "\"2026-11-23T12:00:00.001Z\"", ERROR_DENIED,
     "not within the lease's", false},
    {"one without a life", RUN_CERTIFICATE, "expires", "\"2026-11-23T10:01:00.000Z\"", ERROR_DENIED, "expires must be after",
     false},
    {"one that expired before the result", RUN_CERTIFICATE, "expires", "\"2026-11-23T10:18:59.999Z\"", ERROR_DENIED,
     "within the life of its certificate", false},
    {"one that expired a minute before the result", RUN_CERTIFICATE, "expires", "\"2026-11-23T10:19:00.000Z\"", ERROR_NONE, "",
     false},
    {"one that began after the result", RUN_CERTIFICATE, "not_before", "\"2026-11-23T10:03:00.001Z\"", ERROR_DENIED,
     "within the life of its certificate", false},
    {"one for a text that is no key", RUN_CERTIFICATE, "attempt_key", "\"AAAA\"", ERROR_INVALID, "SubjectPublicKeyInfo", false},
    {"one for a point that is not on the curve", RUN_CERTIFICATE, "attempt_key",
     "\"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AA==\"",
     ERROR_DENIED, "certificate: its attempt_key is no key", false},
    {"one with a member that is not known", RUN_CERTIFICATE, "usage", "\"all\"", ERROR_INVALID, "the member usage is not known",
     false},
    {"a result of another certificate", RUN_RESULT, BIN "externalParameters.certificate", "\"sha256:" A64 "\"", ERROR_DENIED,
     "names another certificate", true},
    {"one that names no certificate", RUN_RESULT, BIN "externalParameters.certificate", NULL, ERROR_INVALID,
     "certificate is missing", true},
    {"a result of another order", RUN_RESULT, BIN "externalParameters.order", "\"sha256:" A64 "\"", ERROR_DENIED,
     "names another order", true},
    {"one of another lease", RUN_RESULT, BIN "externalParameters.lease", "\"sha256:" A64 "\"", ERROR_DENIED,
     "names another lease", true},
    {"one of another attempt", RUN_RESULT, BIN "internalParameters.attempt", "2", ERROR_DENIED, "attempt is not that", false},
    {"one of another invocation", RUN_RESULT, RUN "metadata.invocationId", "\"urn:uuid:00000000-0000-4000-8000-000000000009\"",
     ERROR_DENIED, "invocation is not the run", false},
    {"one that fetched other code", RUN_RESULT, BIN "resolvedDependencies.0.digest.sha256", "\"" A64 "\"", ERROR_DENIED,
     "its code is not that of the order", false},
    {"one that fetched it elsewhere", RUN_RESULT, BIN "resolvedDependencies.0.uri", "\"urn:sijil:evil/models/code\"",
     ERROR_DENIED, "its code is not that of the order", false},
    {"one that fetched another input", RUN_RESULT, BIN "resolvedDependencies.2.digest.sha256", "\"" A64 "\"", ERROR_DENIED,
     "its input digits is not", false},
    {"one without an input", RUN_RESULT, BIN "resolvedDependencies.2", NULL, ERROR_DENIED, "more or fewer artifacts", false},
    {"one without the image", RUN_RESULT, BIN "resolvedDependencies.1", NULL, ERROR_DENIED, "its image is not", false},
    {"one with another output", RUN_RESULT, "subject.0.name", "\"other\"", ERROR_DENIED, "other is not the next output", false},
    {"one without its output", RUN_RESULT, "subject.0", NULL, ERROR_DENIED, "without all outputs", false},
    {"one without its log", RUN_RESULT, "subject.1", NULL, ERROR_DENIED, "is not the log", false},
    {"one with a weaker isolation", RUN_RESULT, RUN "sijil_isolation", "\"rlimits\"", ERROR_DENIED, "isolation is weaker", false},
    {"one that succeeded with status 1", RUN_RESULT, RUN "sijil_outcome.exit", "1", ERROR_DENIED, "not 0", false},
    {"one that succeeded and was killed", RUN_RESULT, RUN "sijil_outcome.signal", "9", ERROR_DENIED, "a signal ended it", false},
    {"one with a device twice", RUN_RESULT, RUN "sijil_devices.1",
     "{\"uuid\":\"GPU-0001\",\"type\":\"gpu\",\"driver\":\"535.1\",\"memory_bytes\":17179869184,\"utilisation_percent\":0}",
     ERROR_DENIED, "twice", false},
    {"one with a device of another type", RUN_RESULT, RUN "sijil_devices.0.type", "\"gpus\"", ERROR_DENIED, "such a device",
     false},
    {"one with the type as a word of the name", RUN_RESULT, RUN "sijil_devices.0.type", "\"some gpu here\"", ERROR_NONE, "",
     false},
    {"one with a part of a device", RUN_RESULT, RUN "sijil_devices.0.type", "\"gpu MIG 1g.18gb\"", ERROR_DENIED, "such a device",
     false},
    {"one with a device that is too small", RUN_RESULT, RUN "sijil_devices.0.memory_bytes", "8589934591", ERROR_DENIED,
     "such a device", false},
    {"one without its device", RUN_RESULT, RUN "sijil_devices", "[]", ERROR_DENIED, "has 1 devices, and it saw 0", false},
    {"one that failed, admitted", RUN_RESULT, RUN "sijil_outcome.status", "\"failed\"", ERROR_DENIED, "nothing is admitted",
     false},
    {"one from before the lease", RUN_RESULT, RUN "metadata.startedOn", "\"2026-11-23T09:59:59.000Z\"", ERROR_DENIED,
     "within the lease", false},
    {"one from after the lease", RUN_RESULT, RUN "metadata.finishedOn", "\"2026-11-23T12:01:00.001Z\"", ERROR_DENIED,
     "within the lease", false},
    {"one that ends before it starts", RUN_RESULT, RUN "metadata.finishedOn", "\"2026-11-23T10:01:59.000Z\"", ERROR_DENIED,
     "within the lease", false},
    /* admission */
    {"an admission of another result", RUN_ADMISSION, "predicate.inputAttestations.4.digest.sha256", "\"" A64 "\"", ERROR_DENIED,
     "names another result", true},
    {"one without the approval", RUN_ADMISSION, "predicate.inputAttestations.1", NULL, ERROR_DENIED, "names 4 envelopes", true},
    {"one with envelopes out of order", RUN_ADMISSION, "predicate.inputAttestations.0.uri", "\"urn:sijil:run-order\"",
     ERROR_DENIED, "names another request", false},
    {"one of another output", RUN_ADMISSION, "subject.0.digest.sha256", "\"" A64 "\"", ERROR_DENIED, "output 1 is not that",
     false},
    {"one of another registry", RUN_ADMISSION, "predicate.verifier.id", "\"urn:sijil:keyd:other.example\"", ERROR_DENIED,
     "another registry", false},
    {"one of another run", RUN_ADMISSION, "predicate.resourceUri", "\"urn:uuid:00000000-0000-4000-8000-000000000009\"",
     ERROR_DENIED, "another run", false},
    {"one with a level too low", RUN_ADMISSION, "predicate.verifiedLevels", "[\"SIJIL_ASSURANCE_1\"]", ERROR_DENIED,
     "below the order's", false},
    {"one with a level of another kind", RUN_ADMISSION, "predicate.verifiedLevels", "[\"SLSA_BUILD_LEVEL3\"]", ERROR_DENIED,
     "its level is", false},
    {"one under an older policy set", RUN_ADMISSION, "predicate.policy.uri", "\"urn:sijil:policy-set:6\"", ERROR_DENIED,
     "older than", false},
    {"one under a newer policy set", RUN_ADMISSION, "predicate.policy",
     "{\"uri\":\"urn:sijil:policy-set:8\",\"digest\":{\"sha256\":\"" A64 "\"}}", ERROR_NONE, "", false},
    {"one under another set of that epoch", RUN_ADMISSION, "predicate.policy.digest.sha256", "\"" A64 "\"", ERROR_DENIED,
     "another digest", false},
    {"one under no policy set", RUN_ADMISSION, "predicate.policy.uri", "\"urn:sijil:policy-set:7a\"", ERROR_DENIED,
     "and an epoch", false},
    {"one before the result", RUN_ADMISSION, "predicate.timeVerified", "\"2026-11-23T10:18:59.000Z\"", ERROR_DENIED,
     "older than the result", false},
    {"a result whose reason has a second line", RUN_RESULT, "predicate.runDetails.sijil_outcome.reason", "\"a\\nb\"",
     ERROR_INVALID, "control characters", false},
    /* refusal */
    {"a refusal of another lease", RUN_REFUSAL, "lease", "\"sha256:" A64 "\"", ERROR_DENIED, "names another lease", true},
    {"one of another run", RUN_REFUSAL, "run", ID, ERROR_DENIED, "run is not that of the lease", false},
    {"one for another registry", RUN_REFUSAL, "audience", "\"other.example/audit\"", ERROR_DENIED, "audience", false},
    {"one from before the lease", RUN_REFUSAL, "at", "\"2026-11-23T09:59:59.000Z\"", ERROR_DENIED, "within the lease", false},
    {"one from after the lease", RUN_REFUSAL, "at", "\"2026-11-23T12:01:00.001Z\"", ERROR_DENIED, "within the lease", false},
    {"one without a reason", RUN_REFUSAL, "reason", "\"\"", ERROR_INVALID, "reason: 1 to 256 bytes", false},
    {"one whose reason has a second line", RUN_REFUSAL, "reason", "\"a\\nsijil-keyd admitted it\"", ERROR_INVALID,
     "control characters", false},
    {"one whose reason steers a terminal", RUN_REFUSAL, "reason", "\"a\\u001b[2J\"", ERROR_INVALID, "control characters", false},
    {"one whose reason reads otherwise", RUN_REFUSAL, "reason", "\"a\\u202eb\"", ERROR_INVALID, "control characters", false},
    {"one with a check that is no name", RUN_REFUSAL, "check", "\"No Device\"", ERROR_INVALID, "check", false},
};

static void refuses_changes(void **state)
{
    const struct row *row = *state;
    OWNED_MADE_RUN made;
    struct error err = {0};

    made_run_begin(&made);
    /* The order repeats the request, so a row that changes the request changes both. */
    if (row->type == RUN_REQUEST && strncmp(row->path, "spec.", 5) == 0) made_set(&made, RUN_ORDER, row->path, row->value);
    if (row->type == RUN_REQUEST && strcmp(row->path, "run") == 0) made_set(&made, RUN_ORDER, row->path, row->value);
    made_set(&made, row->type, row->path, row->value);
    const bool ok = made_check(&made, row->is_stale ? (int)row->type : -1, &err).ok;
    if (ok != (row->kind == ERROR_NONE)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (ok) return;
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, row->kind);
}

/* ---- envelopes ---- */

static struct result read_text(const char *text, enum run_type type, struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;

    return run_envelope_read(bytes_of_text(text), type, &envelope, err);
}

static const struct outside_row {
    const char *name, *member, *value;
    const char *says;
} outside_rows[] = {
    {"a member beside the payload", "more", "1", "the member more is not known"},
    {"two signatures", "signatures",
     "[{\"keyid\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"sig\":\"AAAA\"},"
     "{\"keyid\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"sig\":\"AAAA\"}]",
     "exactly one signature"},
    {"no signature", "signatures", "[]", "exactly one signature"},
    {"a signature without its key's name", "signatures", "[{\"sig\":\"AAAA\"}]", "keyid is missing"},
    {"another payload type", "payloadType", "\"application/vnd.sijil.run-order.v1+json\"", "the payload type of this envelope"},
    {"a payload that is not canonical", "payload", "\"eyAicnVuIjoxfQ==\"", "canonical"},
    {"a payload that is no JSON", "payload", "\"eA==\"", ""},
    {"a payload with a member twice", "payload", "\"eyJydW4iOjEsInJ1biI6MX0=\"", ""},
    {"a payload that is a list", "payload", "\"W10=\"", "an object"},
};

static void refuses_envelopes(void **state)
{
    const struct outside_row *row = *state;
    OWNED_JSON vectors = made_vectors();
    OWNED_JSON envelope = json_loads(json_text_of(made_bundle(vectors, 0), "request"), 0, NULL);
    json_t *value = json_loads(row->value, JSON_DECODE_ANY, NULL);
    struct error err = {0};

    assert_int_equal(json_object_set_new(envelope, row->member, value), 0);
    OWNED_STRING text = json_dumps(envelope, JSON_COMPACT);
    assert_false(read_text(text, RUN_REQUEST, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
}

static void other_keys_are_refused(void **state)
{
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    assert_true(made_check(&made, -1, &err).ok);
    assert_false(run_check_signer(made.read[RUN_ORDER], made.keys[RUN_REQUEST], &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    /* The name of the right key beside the signature of another one. */
    memcpy(made.read[RUN_ORDER]->dsse->signatures[0].keyid, made.read[RUN_REQUEST]->dsse->signatures[0].keyid, DSSE_KEYID_SIZE);
    assert_false(run_check_signer(made.read[RUN_ORDER], made.keys[RUN_REQUEST], &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static void two_approvals_of_one_person_count_once(void **state)
{
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    assert_true(made_check(&made, -1, &err).ok);
    OWNED(run_envelope) *first = made.read[RUN_APPROVAL];
    made.read[RUN_APPROVAL] = NULL;
    buffer_done(&made.envelopes[RUN_APPROVAL]);
    made.envelopes[RUN_APPROVAL] = BUFFER(RUN_ENVELOPE_MAX);
    made_set(&made, RUN_APPROVAL, "nonce", "\"11111111111111111111111111111111\""); /* another envelope, by the same key */
    assert_true(made_sign(&made, RUN_APPROVAL, &err).ok);
    assert_string_not_equal(first->digest, made.read[RUN_APPROVAL]->digest);
    struct run_chain chain = made.chain;
    chain.approvals[0] = first;
    chain.approvals[chain.approval_count++] = made.read[RUN_APPROVAL];
    assert_false(run_chain_check(&chain, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "two approvals are of one person"));
}

static void large_payloads_are_refused(void **state)
{
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    made_run_begin(&made);
    json_t *argv = json_object_get(json_object_get(made.payloads[RUN_REQUEST], "spec"), "argv");
    static char word[4001];
    memset(word, 'x', sizeof word - 1);
    for (int i = 0; i < 20; i++) assert_int_equal(json_array_append_new(argv, json_string(word)), 0);
    assert_false(made_check(&made, -1, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static struct result read_all(void *context, struct error *err)
{
    const json_t *bundle = context;

    TRY(read_text(json_text_of(bundle, "request"), RUN_REQUEST, err));
    return read_text(json_text_of(bundle, "result"), RUN_RESULT, err);
}

static void failures_are_said_of_envelopes(void **state)
{
    OWNED_JSON vectors = made_vectors();

    (void)state;
    fail_each(read_all, (void *)(uintptr_t)made_bundle(vectors, 0), ERROR_NO_MEMORY, 20);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(other_keys_are_refused),
        cmocka_unit_test(two_approvals_of_one_person_count_once),
        cmocka_unit_test(large_payloads_are_refused),
        cmocka_unit_test(failures_are_said_of_envelopes),
    };
    int failed = RUN_TABLE(rows, refuses_changes);

    failed += RUN_TABLE(outside_rows, refuses_envelopes);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
