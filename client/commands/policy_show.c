/* `sijil policy show`: a whole policy set as a person reads it, from a registry or a file. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/local.h"
#include "crypto/dsse.h"
#include "policy/set_text.h"

void found_set_done(struct found_set *found)
{
    policy_set_free(found->set);
    buffer_done(&found->envelope);
    json_decref(found->signers);
}

static struct result compile(struct bytes payload, struct found_set *found, struct error *err)
{
    return policy_set_compile(payload, &found->set, err);
}

/* Without a key the signatures are not checked; what they are of is read all the same. */
static struct result open_envelope(struct bytes envelope, const struct ecdsa_key *root, struct found_set *found,
                                   struct error *err)
{
    OWNED(dsse) *dsse = NULL;

    found->envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    TRY(buffer_add(&found->envelope, envelope.data, envelope.length, err));
    found->is_checked = root != NULL;
    if (root != NULL) return policy_set_read(envelope, root, &found->set, err);
    TRY(dsse_read(envelope, POLICY_SET_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, POLICY_SET_TYPE) != 0) return failure(err, ERROR_INVALID, "it is signed, and no policy set");
    return compile(buffer_bytes(&dsse->payload), found, err);
}

struct result policy_set_from_file(const char *path, const struct ecdsa_key *root, struct found_set *found, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_ENVELOPE_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON json = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), POLICY_SET_ENVELOPE_MAX, &json, err), path, err));
    if (json_object_get(json, "payloadType") != NULL)
        return local(open_envelope(buffer_bytes(&text), root, found, err), path, err);
    if (root != NULL) return failure(err, ERROR_DENIED, "%.200s is not signed", path);
    TRY(policy_compose_file(path, 0, &payload, err));
    return local(compile(buffer_bytes(&payload), found, err), path, err);
}

struct result policy_set_fetch(struct session *session, struct found_set *found, struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "GET", "/policies?envelope=true", NULL, &answer, err));
    const char *envelope = json_text_of(answer, "envelope");
    const json_t *set = json_object_get(answer, "set");
    if (envelope == NULL || set == NULL)
        return failure(err, ERROR_INVALID, "the registry answered without the set: it is older than this program");
    TRY(open_envelope(bytes_of_text(envelope), NULL, found, err));
    found->signers = json_incref(json_object_get(answer, "signers"));
    TRY(policy_set_write(found->set, &canonical, err));
    struct buffer OWNED_BUFFER told = BUFFER(POLICY_SET_BYTES_MAX);
    TRY(json_write_canonical(&told, set, err));
    return bytes_equal(buffer_bytes(&canonical), buffer_bytes(&told))
               ? SUCCESS
               : failure(err, ERROR_CORRUPT, "the registry shows another set than the one that was signed");
}

/* ---- who has signed ---- */

static struct result tell_needed(const json_t *signers, struct buffer *line, struct error *err)
{
    if (signers == NULL) return SUCCESS;
    if (json_is_true(json_object_get(signers, "one_person")))
        return buffer_add_text(line, "; one person is enough, the root's key alone", err);
    return buffer_format(line, err, "; %lld persons must sign, %lld to change that, %lld for the key of an approver",
                         (long long)number_of(signers, "policies"), (long long)number_of(signers, "root"),
                         (long long)number_of(signers, "officers"));
}

static struct result tell_signers(const struct found_set *found, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(4096); /* 8 signatures with key ids of 127 letters */
    OWNED(dsse) *dsse = NULL;

    if (found->envelope.length == 0) return set_text_paragraph("", 0, "NOT SIGNED: a draft.", text, err);
    TRY(dsse_read(buffer_bytes(&found->envelope), POLICY_SET_ENVELOPE_MAX, &dsse, err));
    TRY(buffer_format(&line, err, "Signatures: %zu", dsse->signature_count));
    TRY(tell_needed(found->signers, &line, err));
    TRY(buffer_add_text(&line, ". Key:", err));
    for (size_t i = 0; i < dsse->signature_count; i++) {
        const char *id = dsse->signatures[i].keyid;
        TRY(buffer_format(&line, err, "%s %s", i > 0 ? "," : "", id[0] == '\0' ? "(not named)" : id));
    }
    TRY(buffer_add_text(
        &line, found->is_checked ? ". Checked with the root's key." : ". Not checked here: --root FILE checks it.", err));
    return set_text_paragraph("", 0, buffer_text(&line), text, err);
}

static struct result print_readable(const struct found_set *found, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    const struct set_reading reading = {.now_ms = clock_wall_ms()};

    TRY(buffer_format(&text, err, "Policy set of epoch %llu, digest\n%s\n", (unsigned long long)policy_set_epoch(found->set),
                      policy_set_digest(found->set)));
    TRY(tell_signers(found, &text, err));
    TRY(buffer_add_u8(&text, '\n', err));
    TRY(policy_set_text(found->set, &reading, &text, err));
    (void)fputs(buffer_text(&text), stdout);
    return SUCCESS;
}

static struct result print_json(const struct policy_set *set, bool is_whole, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON value = NULL;

    TRY(is_whole ? policy_set_write(set, &text, err) : policy_set_describe(set, &text, err));
    TRY(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &value, err));
    return api_print_json(value, err);
}

static struct result find(struct invocation *invocation, struct found_set *found, struct error *err)
{
    const char *where = invocation->operands[0], *path = invocation_option(invocation, 'R');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *root = NULL;

    if (path != NULL) TRY(local(ecdsa_key_load(path, &root, err), path, err));
    if (policy_source_is_file(where)) return policy_set_from_file(where, root, found, err);
    TRY(command_session(invocation, where, &session, err));
    TRY(policy_set_fetch(session, found, err));
    if (root == NULL) return SUCCESS;
    policy_set_free(GIVE(found->set));
    found->is_checked = true;
    return policy_set_read(buffer_bytes(&found->envelope), root, &found->set, err);
}

struct result command_policy_show(struct invocation *invocation, struct error *err)
{
    OWNED_FOUND found = {.set = NULL};

    TRY(find(invocation, &found, err));
    const bool is_whole = invocation_option(invocation, 'd') != NULL;
    if (is_whole || invocation->json) return print_json(found.set, is_whole, err);
    return print_readable(&found, err);
}
