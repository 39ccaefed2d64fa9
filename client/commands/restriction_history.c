/* `sijil policy history --organisation`: each restriction that was made, replaced or withdrawn, from the documents that were signed. */
#include <string.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "policy/restriction_chain.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the rows ---- */

static json_t *newest_of(const json_t *rows, const char *name)
{
    for (size_t i = json_array_size(rows); i > 0; i--) {
        json_t *row = json_array_get(rows, i - 1);
        if (strcmp(json_text_of(row, "name"), name) == 0) return row;
    }
    return NULL;
}

/* From the bytes that were signed. What the registry says is when it came, and who sent it. */
static struct result add_row(const json_t *link, const struct document *document, json_t *rows, struct error *err)
{
    json_t *before = newest_of(rows, document->name);
    const char *what = document->is_withdrawn ? "withdrawn" : before == NULL ? "made" : "replaced";
    const json_t *reason = json_object_get(document->json, "withdrawn");

    if (before != NULL && json_object_set(before, "until", json_object_get(link, "event")) != 0) return api_no_memory(err);
    json_t *row = json_pack("{s:s, s:I, s:s, s:O, s:O, s:O*, s:O*}", "name", document->name, "version",
                            (json_int_t)document->version, "what", what, "event", json_object_get(link, "event"), "time",
                            json_object_get(link, "time"), "by", json_object_get(link, "recorded_by"), "reason", reason);
    return json_array_append_new(rows, row) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result list_documents(const json_t *documents, json_t *rows, struct error *err)
{
    for (size_t i = 0; i < json_array_size(documents); i++) {
        const json_t *link = json_array_get(documents, i);
        struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
        OWNED(document) *document = NULL;
        struct set_chain_link read;
        TRY(policy_link_read(link, envelopes, &read, err));
        TRY(document_read(envelopes, read.count, &document, err));
        if (document->kind == DOCUMENT_RESTRICTION) TRY(add_row(link, document, rows, err));
    }
    return SUCCESS;
}

/* ---- who has signed ---- */

struct following {
    const json_t *links, *documents;
    struct set_chain *sets;
    struct restriction_chain *restrictions;
};

static void following_done(struct following *following)
{
    set_chain_free(following->sets);
    restriction_chain_free(following->restrictions);
}

static struct result follow_link(const struct following *following, size_t index, struct error *err)
{
    const json_t *link = json_array_get(following->links, index);
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    struct set_chain_link read;

    TRY(policy_link_follow(following->links, index, following->sets, err));
    if (json_object_get(link, "epoch") != NULL) return SUCCESS;
    TRY(policy_link_read(link, envelopes, &read, err)); /* the key of an approver, which may be an officer's, too */
    return restriction_chain_add(following->restrictions, &read, following->sets, err);
}

static struct result follow_document(const struct following *following, size_t index, struct error *err)
{
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    struct set_chain_link read;

    TRY(policy_link_read(json_array_get(following->documents, index), envelopes, &read, err));
    return restriction_chain_add(following->restrictions, &read, following->sets, err);
}

/* Both lists are in the order of the log. */
static struct result follow(const struct following *following, struct error *err)
{
    const size_t links = json_array_size(following->links), documents = json_array_size(following->documents);
    size_t link = 0, document = 0;

    while (link < links || document < documents) {
        const bool is_link =
            document == documents || (link < links && number_of(json_array_get(following->links, link), "event") <
                                                          number_of(json_array_get(following->documents, document), "event"));
        if (is_link) TRY(follow_link(following, link++, err));
        else TRY(follow_document(following, document++, err));
    }
    return SUCCESS;
}

static struct result note_signers(const struct restriction_proven *proven, json_t *row, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(1024), by = BUFFER(1024);

    TRY(buffer_format(&text, err, "%u of %u", proven->persons, proven->needed));
    for (size_t i = 0; i < proven->signer_count; i++) TRY(buffer_format(&by, err, "%s%s", i > 0 ? ", " : "", proven->signers[i]));
    if (json_object_set_new(row, "signed", json_string(buffer_text(&text))) == 0 &&
        json_object_set_new(row, "by", json_string(buffer_text(&by))) == 0)
        return SUCCESS;
    return api_no_memory(err);
}

static struct result note_all(const struct restriction_chain *chain, json_t *rows, struct error *err)
{
    for (size_t i = 0; i < restriction_chain_count(chain); i++) {
        const struct restriction_proven *proven = restriction_chain_at(chain, i);
        for (size_t j = 0; j < json_array_size(rows); j++) {
            json_t *row = json_array_get(rows, j);
            if (number_of(row, "event") == (int64_t)proven->sequence) TRY(note_signers(proven, row, err));
        }
    }
    return SUCCESS;
}

struct result restrictions_count(const struct invocation *invocation, struct session *session, const struct ecdsa_key *root,
                                 const json_t *all, struct restriction_chain **chain_out, struct error *err)
{
    __attribute__((cleanup(following_done))) struct following following = {.sets = NULL};
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    OWNED_JSON history = NULL;
    OWNED_JSON links = NULL;
    OWNED_JSON documents = json_array();

    if (documents == NULL) return api_no_memory(err);
    TRY(policy_source_fetch(session, 0, &found, err));
    TRY(policy_links_fetch(session, &found, &history, &links, err));
    TRY(restriction_links_without(all, links, documents, err));
    following.links = links;
    following.documents = documents;
    TRY(set_chain_new(root, &following.sets, err));
    TRY(restriction_chain_new(documents_scope(invocation), &following.restrictions, err));
    TRY(follow(&following, err));
    *chain_out = GIVE(following.restrictions);
    return SUCCESS;
}

static struct result check(const struct invocation *invocation, struct session *session, const struct ecdsa_key *root,
                           const json_t *all, json_t *rows, struct error *err)
{
    OWNED(restriction_chain) *chain = NULL;

    TRY(restrictions_count(invocation, session, root, all, &chain, err));
    return note_all(chain, rows, err);
}

struct result restriction_history(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},   {"VERSION", "version"}, {"WHAT", "what"},
                                            {"EVENT", "event"}, {"UNTIL", "until"},     {"TIME", "time"},
                                            {"BY", "by"},       {"REASON", "reason"},   {"SIGNED", "signed"}};
    const char *path = invocation_option(invocation, 'R');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *root = NULL;
    OWNED_JSON documents = NULL;
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    if (path != NULL) TRY(local(ecdsa_key_load(path, &root, err), path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(restriction_links_fetch(session, documents_scope(invocation), NULL, &documents, err));
    TRY(list_documents(documents, rows, err));
    if (root != NULL) TRY(check(invocation, session, root, documents, rows, err));
    return api_print_rows(invocation, rows, columns, root == NULL ? COUNT(columns) - 1 : COUNT(columns), err);
}
