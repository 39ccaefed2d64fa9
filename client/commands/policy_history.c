/* `sijil policy history` and `revert`: the sets of the past, and one of them again. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"

/* ---- the list ---- */

/* "2 of 2": with the set that came before it, nobody needs to believe the registry. Nothing for a set that sijil-keyd has refused. */
static struct result note_signers(const struct set_chain *chain, json_t *row, struct error *err)
{
    struct set_chain_end end;
    unsigned persons, needed;
    struct buffer OWNED_BUFFER text = BUFFER(64);

    set_chain_end(chain, &end);
    const char *digest = json_text_of(row, "digest");
    if (end.set == NULL || digest == NULL || strcmp(digest, policy_set_digest(end.set)) != 0) return SUCCESS;
    set_signers_shown(&end.signers, &persons, &needed);
    TRY(buffer_format(&text, err, "%u of %u", persons, needed));
    return json_object_set_new(row, "signed", json_string(buffer_text(&text))) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result check_sets(const json_t *links, const struct ecdsa_key *root, struct error *err)
{
    OWNED(set_chain) *chain = NULL;

    TRY(set_chain_new(root, &chain, err));
    for (size_t i = 0; i < json_array_size(links); i++) {
        json_t *row = json_object_get(json_array_get(links, i), "row");
        TRY(policy_link_follow(links, i, chain, err));
        if (row != NULL) TRY(note_signers(chain, row, err));
    }
    return SUCCESS;
}

/* The last set that was checked is the one in force, and no other row says that it is. */
static struct result check_in_force(const json_t *rows, const struct policy_set *set, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const bool is_last = (uint64_t)number_of(row, "epoch") == policy_set_epoch(set) && json_object_get(row, "signed") != NULL;
        if (json_is_true(json_object_get(row, "in_force")) != is_last)
            return failure(err, ERROR_CORRUPT, "the history of the registry says of the wrong set that it is in force");
    }
    return SUCCESS;
}

static struct result list_checked(struct invocation *invocation, const struct ecdsa_key *root, json_t **rows_out,
                                  struct error *err)
{
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    OWNED(session) *session = NULL;
    OWNED_JSON links = NULL;
    OWNED_JSON rows = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    TRY(policy_links_fetch(session, &found, &rows, &links, err));
    TRY(check_sets(links, root, err));
    TRY(check_in_force(rows, found.set, err));
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result command_policy_history(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"EPOCH", "epoch"},  {"LOADED", "loaded"},   {"IN FORCE", "in_force"},
                                            {"BY", "loaded_by"}, {"COMMENT", "comment"}, {"DIGEST", "digest"},
                                            {"SIGNED", "signed"}};
    const size_t count = sizeof columns / sizeof columns[0];
    const char *path = invocation_option(invocation, 'R');
    OWNED(ecdsa_key) *root = NULL;
    OWNED_JSON rows = NULL;

    if (documents_scope(invocation)[0] != '\0') return restriction_history(invocation, err);
    if (path == NULL) return api_list(invocation, "/policies/history", "sets", columns, count - 1, err);
    TRY(local(ecdsa_key_load(path, &root, err), path, err));
    TRY(list_checked(invocation, root, &rows, err));
    return api_print_rows(invocation, rows, columns, count, err);
}

/* ---- an earlier set again ---- */

struct result command_policy_revert(struct invocation *invocation, struct error *err)
{
    struct policy_source OWNED_SOURCE past = {.name = NULL};
    OWNED(session) *session = NULL;
    uint64_t epoch = 0;

    if (!text_to_u64(bytes_of_text(invocation->operands[1]), INT64_MAX, &epoch) || epoch == 0)
        return line_check(invocation, failure(err, ERROR_INVALID, "%.30s: the number of a set, as \"policy history\" shows it",
                                              invocation->operands[1]));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(policy_source_fetch(session, epoch, &past, err));
    return policy_draft_content(invocation, session, past.document, err);
}
