/* The payloads of in-toto: the result and the admission. */
#include "training/format/shapes_priv.h"

#define TEXT(smallest, largest, what)                                              \
    {                                                                              \
        .kind = SHAPE_TEXT, .least = (smallest), .most = (largest), .must = (what) \
    }
#define EXACT(value)                                          \
    {                                                         \
        .kind = SHAPE_EXACT, .text = (value), .must = (value) \
    }
#define OBJECT(rows)                              \
    {                                             \
        .kind = SHAPE_OBJECT, SHAPE_MEMBERS(rows) \
    }

static const struct run_shape statement_type = EXACT("https://in-toto.io/Statement/v1");
static const struct run_shape_member digest_members[] = {{"sha256", &run_shape_hex, false}};
static const struct run_shape digest_set = OBJECT(digest_members);
static const struct run_shape dependency_name = TEXT(1, 69, "1 to 69 bytes"); /* "input/" and a name */
static const struct run_shape_member subject_members[] = {{"name", &run_shape_name, false}, {"digest", &digest_set, false}};
static const struct run_shape subject = OBJECT(subject_members);

/* ---- result ---- */

static const struct run_shape subjects = {
    .kind = SHAPE_LIST, .least = 1, .most = 17, .element = &subject, .must = "at most 16 outputs, and the log"};
static const struct run_shape provenance = EXACT("https://slsa.dev/provenance/v1");
static const struct run_shape build_type = EXACT("urn:sijil:run:v1");
static const struct run_shape_member external_members[] = {{"run", &run_shape_uuid, false},
                                                           {"audience", &run_shape_audience, false},
                                                           {"order", &run_shape_digest, false},
                                                           {"lease", &run_shape_digest, false},
                                                           {"certificate", &run_shape_digest, false}};
static const struct run_shape external = OBJECT(external_members);
static const struct run_shape_member internal_members[] = {{"attempt", &run_shape_attempt, false},
                                                           {"node", &run_shape_node, false}};
static const struct run_shape internal = OBJECT(internal_members);
static const struct run_shape repository_urn = {
    .kind = SHAPE_TEXT, .least = 1, .most = 265, .fits = form_repository_urn, .must = "urn:sijil: and a repository"};
static const struct run_shape_member dependency_members[] = {
    {"name", &dependency_name, false}, {"uri", &repository_urn, false}, {"digest", &digest_set, false}};
static const struct run_shape dependency = OBJECT(dependency_members);
static const struct run_shape dependencies = {.kind = SHAPE_LIST,
                                              .least = 1,
                                              .most = 67,
                                              .element = &dependency,
                                              .must = "1 to 67 artifacts"}; /* 64 inputs, and 3 others */
static const struct run_shape_member definition_members[] = {{"buildType", &build_type, false},
                                                             {"externalParameters", &external, false},
                                                             {"internalParameters", &internal, false},
                                                             {"resolvedDependencies", &dependencies, false}};
static const struct run_shape definition = OBJECT(definition_members);

static const struct run_shape runner_urn = {
    .kind = SHAPE_TEXT, .least = 1, .most = 63, .fits = form_runner_urn, .must = "urn:sijil:runner: and a UUID"};
static const struct run_shape_member builder_members[] = {{"id", &runner_urn, false}};
static const struct run_shape builder = OBJECT(builder_members);
static const struct run_shape run_urn = {
    .kind = SHAPE_TEXT, .least = 1, .most = 63, .fits = form_run_urn, .must = "urn:uuid: and a UUID"};
static const struct run_shape_member metadata_members[] = {
    {"invocationId", &run_urn, false}, {"startedOn", &run_shape_time, false}, {"finishedOn", &run_shape_time, false}};
static const struct run_shape metadata = OBJECT(metadata_members);
static const struct run_shape metrics_name = EXACT("metrics");
static const struct run_shape_member byproduct_members[] = {{"name", &metrics_name, false}, {"digest", &digest_set, false}};
static const struct run_shape byproduct = OBJECT(byproduct_members);
static const struct run_shape byproducts = {
    .kind = SHAPE_LIST, .least = 1, .most = 1, .element = &byproduct, .must = "the metrics alone"};

static const struct run_shape status = {
    .kind = SHAPE_TEXT, .least = 1, .most = 16, .fits = form_status, .must = "succeeded, failed, cancelled or timeout"};
static const struct run_shape exit_status = NUMBER(-1, 255, "-1 to 255");
static const struct run_shape signal = NUMBER(0, 64, "0 to 64");
static const struct run_shape reason = {
    .kind = SHAPE_TEXT, .least = 0, .most = 256, .fits = form_shown, .must = "at most 256 bytes, without control characters"};
static const struct run_shape_member outcome_members[] = {
    {"status", &status, false}, {"exit", &exit_status, false}, {"signal", &signal, false}, {"reason", &reason, false}};
static const struct run_shape outcome = OBJECT(outcome_members);
static const struct run_shape_member usage_members[] = {
    {"wall_ms", &run_shape_count, false},      {"cpu_ms", &run_shape_count, false},    {"memory_bytes", &run_shape_count, false},
    {"output_bytes", &run_shape_count, false}, {"log_bytes", &run_shape_count, false}, {"device_ms", &run_shape_count, false}};
static const struct run_shape usage = OBJECT(usage_members);
static const struct run_shape label = {
    .kind = SHAPE_TEXT, .least = 1, .most = 63, .fits = form_shown, .must = "1 to 63 bytes, without control characters"};
static const struct run_shape percent = NUMBER(0, 100, "0 to 100");
static const struct run_shape_member device_members[] = {{"uuid", &label, false},
                                                         {"type", &label, false},
                                                         {"driver", &label, false},
                                                         {"memory_bytes", &run_shape_count, false},
                                                         {"utilisation_percent", &percent, false}};
static const struct run_shape device = OBJECT(device_members);
static const struct run_shape devices = {
    .kind = SHAPE_LIST, .least = 0, .most = 64, .element = &device, .must = "at most 64 devices"};
static const struct run_shape_member details_members[] = {
    {"builder", &builder, false},       {"metadata", &metadata, false}, {"byproducts", &byproducts, true},
    {"sijil_outcome", &outcome, false}, {"sijil_usage", &usage, false}, {"sijil_isolation", &run_shape_isolation, false},
    {"sijil_devices", &devices, false}};
static const struct run_shape details = OBJECT(details_members);
static const struct run_shape_member result_predicate_members[] = {{"buildDefinition", &definition, false},
                                                                   {"runDetails", &details, false}};
static const struct run_shape result_predicate = OBJECT(result_predicate_members);
static const struct run_shape_member result_members[] = {{"_type", &statement_type, false},
                                                         {"subject", &subjects, false},
                                                         {"predicateType", &provenance, false},
                                                         {"predicate", &result_predicate, false}};
const struct run_shape run_shape_result = OBJECT(result_members);

/* ---- admission ---- */

static const struct run_shape outputs = {
    .kind = SHAPE_LIST, .least = 1, .most = 16, .element = &subject, .must = "1 to 16 outputs"};
static const struct run_shape summary = EXACT("https://slsa.dev/verification_summary/v1");
static const struct run_shape uri = TEXT(1, 255, "1 to 255 bytes");
static const struct run_shape_member verifier_members[] = {{"id", &uri, false}};
static const struct run_shape verifier = OBJECT(verifier_members);
static const struct run_shape_member resource_members[] = {{"uri", &uri, false}, {"digest", &digest_set, false}};
static const struct run_shape resource = OBJECT(resource_members);
static const struct run_shape attestations = {.kind = SHAPE_LIST,
                                              .least = 4,
                                              .most = 522,
                                              .element = &resource,
                                              .must = "the envelopes before it"}; /* 12, and two of each of 255 peers */
static const struct run_shape passed = EXACT("PASSED");
static const struct run_shape level = TEXT(17, 17, "SIJIL_ASSURANCE_ and a digit");
static const struct run_shape levels = {.kind = SHAPE_LIST, .least = 1, .most = 1, .element = &level, .must = "one level"};
static const struct run_shape_member summary_members[] = {
    {"verifier", &verifier, false},    {"timeVerified", &run_shape_time, false},    {"resourceUri", &run_urn, false},
    {"policy", &resource, false},      {"inputAttestations", &attestations, false}, {"verificationResult", &passed, false},
    {"verifiedLevels", &levels, false}};
static const struct run_shape summary_predicate = OBJECT(summary_members);
static const struct run_shape_member admission_members[] = {{"_type", &statement_type, false},
                                                            {"subject", &outputs, false},
                                                            {"predicateType", &summary, false},
                                                            {"predicate", &summary_predicate, false}};
const struct run_shape run_shape_admission = OBJECT(admission_members);
