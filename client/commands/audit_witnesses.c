/* Policies of witnesses (docs/witness.md): a new one for a registry is signed here, and a proof waits for the reader's own one. */
#include <string.h>
#include <time.h>

#include "audit/format/checkpoint.h"
#include "audit/format/proof.h"
#include "audit/format/succession.h"
#include "audit/format/witness_policy.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/session.h"
#include "crypto/dsse.h"
#include "crypto/keyd_client.h"

static struct result read_epoch(struct invocation *invocation, uint64_t *epoch_out, struct error *err)
{
    const char *text = invocation_option(invocation, 'e');

    if (text != NULL && text_to_u64(bytes_of_text(text), INT64_MAX, epoch_out) && *epoch_out > 0) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--epoch NUMBER is needed: larger than that of the pinned policy"));
}

/* The gateway would refuse a policy that it can't use; then the old one is in force still, and the epoch is used up. */
static struct result check(struct bytes text, const char *origin, struct error *err)
{
    OWNED(witness_policy) *policy = NULL;

    TRY(witness_policy_read(text, &policy, err));
    for (size_t i = 0; i < policy->log_count; i++)
        if (succession_number(policy->logs[i].name, origin) != 0)
            return SUCCESS; /* the first log of the registry, or one after a recovery */
    if (policy->log_count == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "the policy lists other logs than %.100s", origin);
}

static struct result compose(struct invocation *invocation, const char *path, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_WITNESS_POLICY_MAX);
    const char *origin = invocation_option(invocation, 'i');
    uint64_t epoch = 0;

    if (origin == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--origin ORIGIN is needed: the name of the log"));
    TRY(read_epoch(invocation, &epoch, err));
    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(check(buffer_bytes(&text), origin, err), path, err));
    TRY(buffer_format(payload, err, WITNESS_POLICY_TITLE " %s %llu\n", origin, (unsigned long long)epoch));
    return buffer_add(payload, text.data, text.length, err);
}

struct result command_audit_witnesses_sign(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(KEYD_WITNESS_POLICY_MAX + 512), envelope = BUFFER(KEYD_WITNESS_ENVELOPE_MAX);
    const char *output = invocation_option(invocation, 'o');
    OWNED(ecdsa_key) *key = NULL;

    TRY(compose(invocation, invocation->operands[0], &payload, err));
    TRY(command_signer(invocation, &key, err));
    const struct ecdsa_key *signer = key;
    TRY(dsse_write(WITNESS_POLICY_PAYLOAD, buffer_bytes(&payload), &signer, 1, &envelope, err));
    TRY(buffer_add_u8(&envelope, '\n', err));
    return api_output(invocation, output, buffer_bytes(&envelope), err);
}

/* ---- a proof under a cosigned checkpoint ---- */

#define COSIGNED_MS 120000 /* a gateway submits every ten seconds */
#define ASK_EVERY_S 2

/* The signatures of the witnesses alone: the key of the log is not known here. sijil-verify checks the rest. */
static struct result judge_note(const struct witness_policy *policy, struct bytes bytes, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX);
    struct witness_verdict verdict;
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack */

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    struct result result = note_read(bytes, note, err);
    if (result.ok) result = witness_policy_judge(policy, note, &verdict, err);
    free(note);
    TRY(result);
    if (verdict.is_met) return SUCCESS;
    TRY(witness_policy_describe(policy, &verdict, &text, err));
    return failure(err, ERROR_DENIED, "the checkpoint of the proof is not cosigned: %.200s", buffer_text(&text));
}

static struct result judge(const struct witness_policy *policy, const struct http_response *response, struct error *err)
{
    struct tlog_proof proof;

    TRY(tlog_proof_read(buffer_bytes(&response->body), &proof, err));
    return judge_note(policy, proof.note, err);
}

static struct result fetch_again(struct session *session, const struct http_request *request, struct http_response *response,
                                 struct error *err)
{
    const struct timespec wait = {.tv_sec = ASK_EVERY_S};

    (void)nanosleep(&wait, NULL);
    buffer_clear(&response->body);
    return session_call(session, ADMIN_SCOPE, request, response, err);
}

struct result audit_await_witnesses(const struct invocation *invocation, struct session *session,
                                    const struct http_request *request, struct http_response *response, struct error *err)
{
    const char *path = invocation_option(invocation, 'W');
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX);
    const int64_t until_ms = clock_monotonic_ms() + COSIGNED_MS;
    OWNED(witness_policy) *policy = NULL;

    if (path == NULL) return SUCCESS;
    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(witness_policy_read(buffer_bytes(&text), &policy, err), path, err));
    for (;;) {
        struct error why = {0};
        if (judge(policy, response, &why).ok) return SUCCESS;
        if (why.kind != ERROR_DENIED || clock_monotonic_ms() >= until_ms) return failure(err, why.kind, "%s", why.message);
        TRY(fetch_again(session, request, response, err));
    }
}

struct result audit_await_event(const struct invocation *invocation, struct session *session, uint64_t number, struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    if (invocation_option(invocation, 'W') == NULL) return SUCCESS;
    TRY(buffer_format(&path, err, "/api/v1/audit/events/%llu/proof", (unsigned long long)number));
    TRY(audit_add_within(invocation, '?', &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    return audit_await_witnesses(invocation, session, &request, &response, err);
}
