/* The payloads of our own types: request, approval, order, lease, certificate, refusal. */
#include "training/format/shapes_priv.h"

/* ---- request ---- */

static const struct run_shape request_schema = {
    .kind = SHAPE_EXACT, .text = "sijil.run-request/v1", .must = "sijil.run-request/v1"};
static const struct run_shape claimed_by =
    FORM(form_issuer, 512, "sijil:registry, sijil:rule, or https:// and visible characters, 1 to 512 bytes");
static const struct run_shape claim = FORM(NULL, 512, "1 to 512 bytes");
static const struct run_shape_member claim_members[] = {
    {"issuer", &claimed_by, false}, {"subject", &claim, false}, {"token", &run_shape_digest, false}};
static const struct run_shape claims = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(claim_members)};
static const struct run_shape_member rerun_members[] = {{"run", &run_shape_uuid, false}, {"order", &run_shape_digest, false}};
static const struct run_shape rerun = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(rerun_members)};
static const struct run_shape_member request_members[] = {{"schema", &request_schema, false},
                                                          {"run", &run_shape_uuid, false},
                                                          {"audience", &run_shape_audience, false},
                                                          {"project", &run_shape_project, false},
                                                          {"requester", &run_shape_principal, false},
                                                          {"issued_at", &run_shape_time, false},
                                                          {"expires", &run_shape_time, false},
                                                          {"nonce", &run_shape_nonce, false},
                                                          {"claims", &claims, true},
                                                          {"rerun", &rerun, true},
                                                          {"spec", &run_shape_spec, false}};
const struct run_shape run_shape_request = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(request_members)};

/* ---- approval ---- */

static const struct run_shape approval_schema = {
    .kind = SHAPE_EXACT, .text = "sijil.run-approval/v1", .must = "sijil.run-approval/v1"};
static const struct run_shape_member approval_members[] = {
    {"schema", &approval_schema, false},   {"run", &run_shape_uuid, false},           {"audience", &run_shape_audience, false},
    {"request", &run_shape_digest, false}, {"approver", &run_shape_principal, false}, {"issued_at", &run_shape_time, false},
    {"expires", &run_shape_time, false},   {"nonce", &run_shape_nonce, false}};
const struct run_shape run_shape_approval = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(approval_members)};

/* ---- order ---- */

static const struct run_shape order_schema = {.kind = SHAPE_EXACT, .text = "sijil.run-order/v1", .must = "sijil.run-order/v1"};
static const struct run_shape approvals = {
    .kind = SHAPE_LIST, .least = 0, .most = 8, .element = &run_shape_digest, .sorted_by = "", .must = "at most 8 digests"};
static const struct run_shape approvals_count = NUMBER(0, 8, "a whole number from 0 to 8");
static const struct run_shape flag = {.kind = SHAPE_FLAG, .must = "true or false"};
static const struct run_shape_member obligation_members[] = {{"approvals", &approvals_count, false},
                                                             {"signed_request", &flag, false}};
static const struct run_shape obligations = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(obligation_members)};
static const struct run_shape from_one = NUMBER(1, RUN_INTEGER_MAX, "a whole number from 1");
static const struct run_shape_member policy_members[] = {
    {"epoch", &from_one, false}, {"digest", &run_shape_digest, false}, {"decision", &run_shape_digest, false}};
static const struct run_shape policy = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(policy_members)};
static const struct run_shape_member event_members[] = {
    {"number", &run_shape_count, false}, {"size", &from_one, false}, {"root", &run_shape_hex, false}};
static const struct run_shape event = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(event_members)};
static const struct run_shape_member order_members[] = {{"schema", &order_schema, false},
                                                        {"run", &run_shape_uuid, false},
                                                        {"audience", &run_shape_audience, false},
                                                        {"project", &run_shape_project, false},
                                                        {"requester", &run_shape_principal, false},
                                                        {"spec", &run_shape_spec, false},
                                                        {"request", &run_shape_digest, false},
                                                        {"approvals", &approvals, false},
                                                        {"jurisdictions", &run_shape_jurisdictions, false},
                                                        {"obligations", &obligations, false},
                                                        {"policy", &policy, false},
                                                        {"event", &event, false},
                                                        {"attempts", &run_shape_attempt, false},
                                                        {"nonce", &run_shape_nonce, false},
                                                        {"not_before", &run_shape_time, false},
                                                        {"expires", &run_shape_time, false}};
const struct run_shape run_shape_order = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(order_members)};

/* ---- lease ---- */

static const struct run_shape lease_schema = {.kind = SHAPE_EXACT, .text = "sijil.run-lease/v1", .must = "sijil.run-lease/v1"};
static const struct run_shape_member runner_members[] = {{"id", &run_shape_uuid, false}, {"key", &run_shape_thumbprint, false}};
static const struct run_shape runner = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(runner_members)};
static const struct run_shape_member lease_members[] = {
    {"schema", &lease_schema, false},    {"run", &run_shape_uuid, false},        {"audience", &run_shape_audience, false},
    {"order", &run_shape_digest, false}, {"attempt", &run_shape_attempt, false}, {"node", &run_shape_node, false},
    {"runner", &runner, false},          {"nonce", &run_shape_nonce, false},     {"not_before", &run_shape_time, false},
    {"expires", &run_shape_time, false}};
const struct run_shape run_shape_lease = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(lease_members)};

/* ---- certificate ---- */

static const struct run_shape certificate_schema = {
    .kind = SHAPE_EXACT, .text = "sijil.run-certificate/v1", .must = "sijil.run-certificate/v1"};
static const struct run_shape public_key = FORM(form_public_key, 124, "base64 of the SubjectPublicKeyInfo of a P-256 key");
static const struct run_shape_member certificate_members[] = {
    {"schema", &certificate_schema, false}, {"run", &run_shape_uuid, false},     {"audience", &run_shape_audience, false},
    {"order", &run_shape_digest, false},    {"lease", &run_shape_digest, false}, {"attempt", &run_shape_attempt, false},
    {"node", &run_shape_node, false},       {"runner_key", &public_key, false},  {"attempt_key", &public_key, false},
    {"not_before", &run_shape_time, false}, {"expires", &run_shape_time, false}};
const struct run_shape run_shape_certificate = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(certificate_members)};

/* ---- refusal ---- */

static const struct run_shape refusal_schema = {
    .kind = SHAPE_EXACT, .text = "sijil.run-refusal/v1", .must = "sijil.run-refusal/v1"};
static const struct run_shape refusal_reason = FORM(form_shown, 256, "1 to 256 bytes, without control characters");
static const struct run_shape_member refusal_members[] = {
    {"schema", &refusal_schema, false},  {"run", &run_shape_uuid, false},   {"audience", &run_shape_audience, false},
    {"lease", &run_shape_digest, false}, {"check", &run_shape_name, false}, {"reason", &refusal_reason, false},
    {"at", &run_shape_time, false}};
const struct run_shape run_shape_refusal = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(refusal_members)};

/* ---- DSSE, and the bundle ---- */

static const struct run_shape payload = {
    .kind = SHAPE_TEXT, .least = 1, .most = 131072, .must = "base64 of the payload"}; /* RUN_ENVELOPE_MAX */
static const struct run_shape type = FORM(NULL, 127, "a payload type");
static const struct run_shape sig = FORM(NULL, 128, "base64 of an ECDSA P-256 signature in DER");
static const struct run_shape_member signature_members[] = {{"keyid", &run_shape_thumbprint, false}, {"sig", &sig, false}};
static const struct run_shape signature = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(signature_members)};
static const struct run_shape signatures = {
    .kind = SHAPE_LIST, .least = 1, .most = 1, .element = &signature, .must = "exactly one signature"};
static const struct run_shape_member envelope_members[] = {
    {"payload", &payload, false}, {"payloadType", &type, false}, {"signatures", &signatures, false}};
const struct run_shape run_shape_envelope = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(envelope_members)};

static const struct run_shape bundle_schema = {.kind = SHAPE_EXACT, .text = "sijil.run-bundle/v1", .must = "sijil.run-bundle/v1"};
static const struct run_shape long_text = {
    .kind = SHAPE_TEXT, .least = 1, .most = 16 * 1024 * 1024, .must = "a text"}; /* RUN_BUNDLE_MAX bounds the file */
static const struct run_shape envelopes = {
    .kind = SHAPE_LIST, .least = 1, .most = 4, .element = &long_text, .must = "1 to 4 envelopes"};
static const struct run_shape_member proven_members[] = {{"entry", &long_text, false}, {"proof", &long_text, false}};
static const struct run_shape proven = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(proven_members)};
static const struct run_shape_member document_members[] = {
    {"envelopes", &envelopes, false}, {"entry", &long_text, false}, {"proof", &long_text, false}};
static const struct run_shape document = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(document_members)};
static const struct run_shape documents = {
    .kind = SHAPE_LIST, .least = 0, .most = 640, .element = &document, .must = "at most 640 documents"}; /* RUN_DOCUMENTS_MAX */
static const struct run_shape texts_8 = {
    .kind = SHAPE_LIST, .least = 0, .most = 8, .element = &long_text, .must = "at most 8 texts"};
static const struct run_shape texts_16 = {
    .kind = SHAPE_LIST, .least = 0, .most = 16, .element = &long_text, .must = "at most 16 texts"};
static const struct run_shape texts_64 = {
    .kind = SHAPE_LIST, .least = 0, .most = 64, .element = &long_text, .must = "at most 64 texts"};
static const struct run_shape texts_67 = {
    .kind = SHAPE_LIST, .least = 0, .most = 67, .element = &long_text, .must = "at most 67 manifests"}; /* RUN_ARTIFACTS_MAX */
static const struct run_shape log_keys = {
    .kind = SHAPE_TEXT, .least = 1, .most = 24576, .must = "keys of the log with their handovers"}; /* LOG_KEYS_TEXT_MAX */
static const struct run_shape_member peer_members[] = {
    {"lease", &long_text, false}, {"certificate", &long_text, false}, {"result", &long_text, false}};
static const struct run_shape peer = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(peer_members)};
static const struct run_shape peers = {
    .kind = SHAPE_LIST, .least = 1, .most = 255, .element = &peer, .must = "1 to 255 nodes"}; /* RUN_PEERS_MAX */
static const struct run_shape_member bundle_members[] = {
    {"schema", &bundle_schema, false}, {"documents", &documents, false},  {"request", &long_text, false},
    {"approvals", &texts_8, false},    {"order", &long_text, false},      {"event", &proven, false},
    {"lease", &long_text, true},       {"certificate", &long_text, true}, {"result", &long_text, true},
    {"admission", &long_text, true},   {"refusal", &long_text, true},     {"peers", &peers, true},
    {"policy_sets", &texts_16, true},  {"decisions", &texts_64, true},    {"manifests", &texts_67, true},
    {"log_keys", &log_keys, true},     {"restrictions", &texts_16, true}};
const struct run_shape run_shape_bundle = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(bundle_members)};
