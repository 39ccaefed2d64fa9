/* Lists of signed documents in answers: those in force, and drafts; and the answer with one of them. */
#include "base/json.h"
#include "gateway/api/document_priv.h"

struct result document_answer(struct request *request, unsigned status, const struct document *document, uint64_t sequence,
                              struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_describe(document, sequence, &value, err));
    response_json(request, status, value);
    return SUCCESS;
}

struct result document_list_add(json_t *list, json_t *value, struct error *err)
{
    return json_array_append_new(list, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

struct result document_list_pinned(void *list, const struct pinned_document *pinned, struct error *err)
{
    json_t *value = NULL;

    TRY(document_describe(pinned->document, pinned->sequence, &value, err));
    return document_list_add(list, value, err);
}

/* Others may have written the row: document_add_signatures() finds which signatures count. */
struct result document_list_draft(const struct document_drafts *drafts, const struct drafted_document *drafted, unsigned needed,
                                  struct error *err)
{
    const struct document_holder holder = {drafts->trust.root, "root", needed};
    OWNED_JSON value = NULL;

    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(document_add_signatures(drafts, value, drafted, &holder, err));
    if (json_array_size(json_object_get(value, "envelopes")) == 0) return SUCCESS;
    return document_list_add(drafts->list, json_incref(value), err);
}

struct result document_list_answer(struct request *request, json_t *value, const char *name, unsigned limit, struct error *err)
{
    json_t *list = json_object_get(value, name);
    const bool has_more = json_array_size(list) > limit;

    if (has_more) (void)json_array_remove(list, limit);
    json_t *next = json_object_get(json_array_get(list, limit - 1), "name");
    if (has_more && json_object_set(value, "next", next) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return has_more ? api_link_next(request, json_string_value(next), err) : SUCCESS;
}
