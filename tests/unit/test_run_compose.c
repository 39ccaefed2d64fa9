/* The composed envelopes of training runs: each payload has the bytes of the vectors of docs/formats/run.md. */
#include "tests/support/made_run.h"

#include "base/clock.h"
#include "crypto/digest.h"
#include "training/format/certificate.h"
#include "training/format/compose.h"
#include "training/format/public_key.h"

#define RUN "predicate.runDetails."

static void compose_begin(struct made_run *made)
{
    struct error err = {0};

    made_run_begin(made);
    if (!made_check(made, -1, &err).ok) fail_msg("%s", err.message);
}

static struct result write_request(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *request = chain->request;
    const struct run_request_parts parts = {.run = run_text(request, "run"),
                                            .audience = run_text(request, "audience"),
                                            .project = run_text(request, "project"),
                                            .requester = run_text(request, "requester"),
                                            .nonce = run_text(request, "nonce"),
                                            .issued_ms = run_time(request, "issued_at"),
                                            .expires_ms = run_time(request, "expires"),
                                            .spec = run_member(request, "spec")};

    return run_request_write(&parts, payload, err);
}

static struct result write_approval(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *approval = chain->approvals[0];
    const struct run_approval_parts parts = {.approver = run_text(approval, "approver"),
                                             .nonce = run_text(approval, "nonce"),
                                             .issued_ms = run_time(approval, "issued_at"),
                                             .expires_ms = run_time(approval, "expires")};

    return run_approval_write(chain->request, &parts, payload, err);
}

static struct run_order_parts order_parts(const struct run_envelope *order)
{
    return (struct run_order_parts){.jurisdictions = run_member(order, "jurisdictions"),
                                    .approvals = run_integer(order, "obligations.approvals"),
                                    .signed_request = json_is_true(run_member(order, "obligations.signed_request")),
                                    .epoch = run_integer(order, "policy.epoch"),
                                    .policy = run_text(order, "policy.digest"),
                                    .decision = run_text(order, "policy.decision"),
                                    .event_number = run_integer(order, "event.number"),
                                    .log_size = run_integer(order, "event.size"),
                                    .log_root = run_text(order, "event.root"),
                                    .attempts = run_integer(order, "attempts"),
                                    .nonce = run_text(order, "nonce"),
                                    .not_before_ms = run_time(order, "not_before"),
                                    .expires_ms = run_time(order, "expires")};
}

static struct result compose_order(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_order_parts parts = order_parts(chain->order);

    return run_order_write(chain, &parts, payload, err);
}

static struct result write_lease(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *lease = chain->lease;
    const struct run_lease_parts parts = {.attempt = run_integer(lease, "attempt"),
                                          .node = run_integer(lease, "node"),
                                          .runner = run_text(lease, "runner.id"),
                                          .key = run_text(lease, "runner.key"),
                                          .nonce = run_text(lease, "nonce"),
                                          .not_before_ms = run_time(lease, "not_before"),
                                          .expires_ms = run_time(lease, "expires")};

    return run_lease_write(chain->order, &parts, payload, err);
}

static const char *hex_in(const struct run_envelope *envelope, const char *list, size_t at)
{
    return json_text_of(json_object_get(json_array_get(run_member(envelope, list), at), "digest"), "sha256");
}

static struct result write_certificate(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *certificate = chain->certificate;
    struct run_certificate_parts parts = {.run = run_text(certificate, "run"),
                                          .audience = run_text(certificate, "audience"),
                                          .order = chain->order->digest,
                                          .lease = chain->lease->digest,
                                          .attempt = run_integer(certificate, "attempt"),
                                          .node = run_integer(certificate, "node"),
                                          .not_before_ms = run_time(certificate, "not_before"),
                                          .expires_ms = run_time(certificate, "expires")};

    assert_true(public_key_point(run_text(certificate, CERTIFICATE_RUNNER), parts.runner));
    assert_true(public_key_point(run_text(certificate, CERTIFICATE_ATTEMPT), parts.key));
    return run_certificate_write(&parts, payload, err);
}

static struct result write_result(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_envelope *result = chain->result;
    const struct run_subject output = {"model", hex_in(result, "subject", 0)};
    const struct run_device device = {"GPU-0001", "gpu", "535.1", 1LL << 34, 64};
    const struct run_result_parts parts = {.outputs = &output,
                                           .output_count = 1,
                                           .log = hex_in(result, "subject", 1),
                                           .metrics = hex_in(result, RUN "byproducts", 0),
                                           .started_ms = run_time(result, RUN "metadata.startedOn"),
                                           .finished_ms = run_time(result, RUN "metadata.finishedOn"),
                                           .status = "succeeded",
                                           .reason = "",
                                           .wall_ms = 1080000,
                                           .cpu_ms = 900000,
                                           .memory_bytes = 1LL << 29,
                                           .output_bytes = 4096,
                                           .log_bytes = 2048,
                                           .device_ms = 700000,
                                           .isolation = "cgroup-v2",
                                           .devices = &device,
                                           .device_count = 1};

    return run_result_write(chain, &parts, payload, err);
}

static struct result write_admission(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    const struct run_admission_parts parts = {.verified_ms = run_time(chain->admission, "predicate.timeVerified"),
                                              .epoch = 7,
                                              .policy = run_text(chain->admission, "predicate.policy.digest.sha256"),
                                              .assurance = 3};

    return run_admission_write(chain, &parts, payload, err);
}

static struct result write_refusal(const struct run_chain *chain, struct buffer *payload, struct error *err)
{
    int64_t at_ms = 0;

    assert_true(clock_parse(bytes_of_text("2026-11-23T10:02:00.000Z"), &at_ms));
    const struct run_refusal_parts parts = {run_text(chain->lease, "run"),
                                            run_text(chain->lease, "audience"),
                                            chain->lease->digest,
                                            "devices",
                                            "the order asks for 1 gpu, and this machine has none",
                                            at_ms};
    return run_refusal_write(&parts, payload, err);
}

typedef struct result writer(const struct run_chain *chain, struct buffer *payload, struct error *err);
static const struct compose_row {
    const char *name;
    enum run_type type;
    writer *write;
} compose_rows[] = {
    {"a request", RUN_REQUEST, write_request},
    {"an approval", RUN_APPROVAL, write_approval},
    {"an order", RUN_ORDER, compose_order},
    {"a lease", RUN_LEASE, write_lease},
    {"a certificate", RUN_CERTIFICATE, write_certificate},
    {"a result", RUN_RESULT, write_result},
    {"an admission", RUN_ADMISSION, write_admission},
    {"a refusal", RUN_REFUSAL, write_refusal},
};

static void makes_the_bytes_of_the_vectors(void **state)
{
    const struct compose_row *row = *state;
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_envelope) *read = NULL;
    OWNED_MADE_RUN made;
    struct error err = {0};

    compose_begin(&made);
    const struct run_envelope *wanted = made.read[row->type];
    if (!row->write(&made.chain, &payload, &err).ok) fail_msg("%s", err.message);
    if (!bytes_equal(buffer_bytes(&payload), buffer_bytes(&wanted->dsse->payload))) fail_msg("%s", buffer_text(&payload));
    assert_true(run_sign(row->type, buffer_bytes(&payload), made.keys[row->type], &envelope, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&envelope), row->type, &read, &err).ok);
    assert_true(run_check_signer(read, made.keys[row->type], &err).ok);
    assert_string_equal(read->digest, wanted->digest);
}

struct attempt {
    const struct compose_row *row;
    struct made_run *made;
};

static struct result write_once(void *context, struct error *err)
{
    const struct attempt *attempt = context;
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);

    return attempt->row->write(&attempt->made->chain, &payload, err);
}

static void failures_leave_nothing(void **state)
{
    const struct compose_row *row = *state;
    OWNED_MADE_RUN made;

    compose_begin(&made);
    struct attempt attempt = {row, &made};
    fail_each(write_once, &attempt, ERROR_NO_MEMORY, 3);
}

static void optional_members_are_written(void **state)
{
    const struct run_claims claims = {"https://id.example", "alice",
                                      "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    compose_begin(&made);
    const struct run_envelope *request = made.chain.request;
    struct run_request_parts parts = {.run = run_text(request, "run"),
                                      .audience = run_text(request, "audience"),
                                      .project = run_text(request, "project"),
                                      .requester = run_text(request, "requester"),
                                      .nonce = run_text(request, "nonce"),
                                      .expires_ms = 1000,
                                      .claims = &claims,
                                      .rerun_run = run_text(request, "run"),
                                      .rerun_order = claims.token,
                                      .spec = run_member(request, "spec")};
    assert_true(run_request_write(&parts, &payload, &err).ok);
    assert_non_null(strstr(buffer_text(&payload), "\"claims\":{\"issuer\":\"https://id.example\",\"subject\":\"alice\""));
    assert_non_null(strstr(buffer_text(&payload), "\"rerun\":{\"order\":\"sha256:aa"));
    parts.nonce = "short";
    assert_false(run_request_write(&parts, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "the request: nonce: 32 lower-case hex digits");
}

static void refuses_what_the_page_forbids(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX);
    OWNED_MADE_RUN made;
    struct error err = {0};

    (void)state;
    compose_begin(&made);
    struct run_order_parts order = order_parts(made.chain.order);
    order.attempts = 101;
    assert_false(run_order_write(&made.chain, &order, &payload, &err).ok);
    assert_non_null(strstr(err.message, "attempts"));
    const struct run_envelope *lease = made.chain.lease;
    const struct run_refusal_parts odd = {
        run_text(lease, "run"), run_text(lease, "audience"), lease->digest, "devices", "\xff", 0};
    assert_false(run_refusal_write(&odd, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "a text of the refusal is not UTF-8");
    assert_int_equal(payload.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_members_are_written),
        cmocka_unit_test(refuses_what_the_page_forbids),
    };
    int failed = RUN_TABLE(compose_rows, makes_the_bytes_of_the_vectors);

    failed += RUN_TABLE(compose_rows, failures_leave_nothing);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
