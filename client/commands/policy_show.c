/* `sijil policy show`: a whole policy set as a person reads it, from a registry or a file. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/policy_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/local.h"
#include "crypto/dsse.h"
#include "policy/restriction.h"
#include "policy/set_exceptions.h"
#include "policy/set_text.h"

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

static struct result tell_checked(const struct policy_source *found, struct buffer *line, struct error *err)
{
    struct set_chain_end end;

    if (found->root == NULL) return buffer_add_text(line, ". Not checked here: --root FILE checks it.", err);
    if (found->chain == NULL)
        return buffer_add_text(
            line,
            policy_set_exception_count(found->set) == 0
                ? ". Checked with the root's key."
                : ". Checked with the root's key; whether those whom the exceptions name have signed, it is not known here.",
            err);
    set_chain_end(found->chain, &end);
    TRY(buffer_add_text(line, ". Checked from the root's key on: ", err));
    return set_chain_text(&end, line, err);
}

static struct result tell_signers(const struct policy_source *found, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(4096); /* 8 signatures with key ids of 127 letters, and some sentences */
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
    TRY(tell_checked(found, &line, err));
    return set_text_paragraph("", 0, buffer_text(&line), text, err);
}

static struct result print_readable(const struct policy_source *found, const struct policy_set *shown, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    const struct set_reading reading = {.now_ms = clock_wall_ms()};

    TRY(buffer_format(&text, err, "Policy set of epoch %llu, digest\n%s\n", (unsigned long long)policy_set_epoch(found->set),
                      policy_set_digest(found->set)));
    TRY(tell_signers(found, &text, err));
    if (shown != found->set)
        TRY(set_text_paragraph(
            "", 0,
            found->root == NULL
                ? "With the restrictions that the officers of the organisation have signed for it, as the registry tells them."
                : "With the restrictions that enough officers of the organisation have signed for it, counted from the root's key on.",
            &text, err));
    TRY(buffer_add_u8(&text, '\n', err));
    TRY(policy_set_text(shown, &reading, &text, err));
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

/* Those that enough officers have signed, whatever the registry says of them. */
static struct result find_counted(const struct invocation *invocation, struct session *session, const struct policy_source *found,
                                  json_t **policies_out, struct error *err)
{
    OWNED(restriction_chain) *chain = NULL;
    OWNED_JSON all = NULL;

    TRY(restriction_links_fetch(session, documents_scope(invocation), NULL, &all, err));
    TRY(restrictions_count(invocation, session, found->root, all, &chain, err));
    return restriction_chain_policies(chain, policies_out, err);
}

/* --draft: who has signed it so far, "policy drafts" says. */
static struct result find_draft(struct invocation *invocation, struct policy_source *found, struct policy_set **shown_out,
                                struct error *err)
{
    const char *where = invocation->operands[0];
    OWNED(session) *session = NULL;

    if (policy_source_is_file(where) || found->root != NULL || documents_scope(invocation)[0] != '\0')
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "--draft goes with HOST, and not with --root or --organisation"));
    TRY(command_session(invocation, where, &session, err));
    TRY(policy_draft_fetch(invocation, session, invocation_option(invocation, 'D'), &found->set, err));
    *shown_out = policy_set_keep(found->set);
    return SUCCESS;
}

static struct result find(struct invocation *invocation, struct policy_source *found, struct policy_set **shown_out,
                          struct error *err)
{
    const char *where = invocation->operands[0];
    OWNED(session) *session = NULL;
    OWNED_JSON policies = NULL;

    if (policy_source_is_file(where)) {
        TRY(policy_source_file(where, found, err));
        *shown_out = policy_set_keep(found->set);
        return SUCCESS;
    }
    TRY(command_session(invocation, where, &session, err));
    TRY(policy_source_fetch(session, 0, found, err));
    if (found->root != NULL) TRY(policy_source_check(session, found, err));
    if (documents_scope(invocation)[0] == '\0') {
        *shown_out = policy_set_keep(found->set);
        return SUCCESS;
    }
    if (found->root != NULL) TRY(find_counted(invocation, session, found, &policies, err));
    else TRY(restrictions_fetch(invocation, session, &policies, err));
    return policy_restrictions_show(found->set, policies, shown_out, err);
}

struct result command_policy_show(struct invocation *invocation, struct error *err)
{
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    const char *path = invocation_option(invocation, 'R');
    OWNED(policy_set) *shown = NULL;
    OWNED(ecdsa_key) *root = NULL;

    if (path != NULL) TRY(local(ecdsa_key_load(path, &root, err), path, err));
    found.root = root;
    TRY((invocation_option(invocation, 'D') == NULL ? find : find_draft)(invocation, &found, &shown, err));
    const bool is_whole = invocation_option(invocation, 'd') != NULL;
    if (is_whole || invocation->json) return print_json(shown, is_whole, err);
    return print_readable(&found, shown, err);
}
