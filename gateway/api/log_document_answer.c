/* Documents about the log in answers: those in force, and drafts. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "gateway/api/log_document_priv.h"

#define APPROVERS 2 /* persons that sign, if the root does not */

struct result log_document_answer(struct request *request, unsigned status, const struct document *document, uint64_t sequence,
                                  struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_describe(document, sequence, &value, err));
    response_json(request, status, value);
    return SUCCESS;
}

static struct result append(json_t *list, json_t *value, struct error *err)
{
    return json_array_append_new(list, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result append_document(void *context, const struct pinned_document *pinned, struct error *err)
{
    json_t *value = NULL;

    TRY(document_describe(pinned->document, pinned->sequence, &value, err));
    return append(context, value, err);
}

/* A row that nobody with a key that counts has signed is no draft, because others may have written it; document_add_signatures() finds that. */
static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct document_drafts *drafts = context;
    const struct document_holder holder = {drafts->trust.root, "root", APPROVERS};
    const struct log_documents *documents = log_documents_of(drafts->request->pairs[0].action);
    OWNED_JSON value = NULL;
    struct error refused = {0};

    if (drafted->document->is_withdrawn || !documents->check(drafted->document, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(document_add_signatures(drafts, value, drafted, &holder, err));
    if (json_array_size(json_object_get(value, "envelopes")) == 0) return SUCCESS;
    return append(drafts->list, json_incref(value), err);
}

static struct result add_drafts(struct request *request, struct pg *pg, const struct log_documents *documents, json_t *list,
                                struct error *err)
{
    const struct document_draft_query query = {documents->read, documents->kind, "", NULL};
    struct document_drafts drafts = {.request = request, .list = list};

    TRY(document_trust_now(request, &drafts.trust, err));
    return document_draft_visit(request->permit, pg, &query, append_draft, &drafts, err);
}

static struct result add_states(struct request *request, struct pg *pg, const struct log_documents *documents, const json_t *list,
                                struct error *err)
{
    for (size_t i = 0; documents->add != NULL && i < json_array_size(list); i++)
        TRY(documents->add(request, pg, json_array_get(list, i), err));
    return SUCCESS;
}

static struct result answer(struct request *request, json_t *value, json_t *list, unsigned limit, struct error *err)
{
    const bool has_more = json_array_size(list) > limit;

    if (has_more) (void)json_array_remove(list, limit);
    json_t *next = json_object_get(json_array_get(list, limit - 1), "name");
    if (has_more && json_object_set(value, "next", next) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return has_more ? api_link_next(request, json_string_value(next), err) : SUCCESS;
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    const struct document_scope registry = {"", 0};
    OWNED_JSON value = json_pack("{s:[], s:[]}", documents->list, "drafts");
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    json_t *list = json_object_get(value, documents->list);
    const struct view_range range = {documents->kind, &registry, page.after, page.limit + 1};
    TRY(document_refresh(request, pg, err));
    TRY(document_view_visit(request->gateway->documents, &range, append_document, list, err));
    TRY(add_states(request, pg, documents, list, err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, documents, json_object_get(value, "drafts"), err));
    return answer(request, value, list, page.limit, err);
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, documents->read, documents->kind, &value, err));
    if (documents->add != NULL) TRY(documents->add(request, pg, value, err));
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_log_document_list = {.handle = handle_list};
const struct handler handler_log_document_show = {.handle = handle_show};
