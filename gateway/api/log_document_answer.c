/* Documents about the log in answers: those in force, and drafts. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "gateway/api/log_document_priv.h"

#define APPROVERS 2 /* persons that sign, if the root does not */

static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct document_drafts *drafts = context;
    const struct log_documents *documents = log_documents_of(drafts->request->pairs[0].action);
    struct error refused = {0};

    if (drafted->document->is_withdrawn || !document_check_body(drafted->document, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    if (documents->list_draft != NULL) return documents->list_draft(drafts, drafted, err);
    return document_list_draft(drafts, drafted, APPROVERS, err);
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
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, list, err));
    TRY(add_states(request, pg, documents, list, err));
    if (page.after[0] == '\0') TRY(add_drafts(request, pg, documents, json_object_get(value, "drafts"), err));
    if (documents->finish != NULL) TRY(documents->finish(request, pg, value, err));
    return document_list_answer(request, value, documents->list, page.limit, err);
}

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, documents->read, documents->kind, &value, err));
    if (documents->add != NULL) TRY(documents->add(request, pg, value, err));
    return document_answer_shown(request, value, documents->add == NULL, err);
}

const struct handler handler_log_document_list = {.handle = handle_list};
const struct handler handler_log_document_show = {.handle = handle_show};
