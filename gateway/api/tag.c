/* Entity tags of documents, and conditions of requests about them (RFC 9110, 13; docs/api.md, "Versions of documents"). */
#include <string.h>

#include "gateway/api/document_priv.h"
#include "gateway/http/condition.h"

bool api_condition_holds(const struct request *request, const char *tag)
{
    return condition_of_request(&request->headers, tag) == CONDITIONS_HOLD;
}

void api_answer_changed(struct request *request, const char *what)
{
    const char *detail = arena_format(request->arena,
                                      "%s is not what If-Match or If-None-Match says: read it again, and decide whether your "
                                      "change still fits",
                                      what);

    response_problem(request, 412, "The precondition failed", detail == NULL ? what : detail);
}

void api_answer_tagged(struct request *request, const char *tag, const char *what)
{
    switch (condition_of_request(&request->headers, tag)) {
    case CONDITION_NO_MATCH: api_answer_changed(request, what); break;
    case CONDITION_A_MATCH: response_not_modified(request, request->response->body.length); break;
    case CONDITIONS_HOLD: break;
    }
    response_header(request, "ETag", "%s", tag);
}

/* ---- signed documents ---- */

/* Its number in the log names its signatures, too. What a page adds beside them, such as how far a sink is behind, is in no tag. */
static struct result tag_of_description(const json_t *description, char tag_out[ENTITY_TAG_SIZE], struct error *err)
{
    static const char *const members[] = {"name", "state", "event", "document"};
    struct buffer OWNED_BUFFER text = BUFFER((size_t)1 << 20);
    OWNED_JSON tagged = json_object();

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_set(tagged, members[i], json_object_get(description, members[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for an entity tag");
    TRY(json_write_canonical(&text, tagged, err));
    entity_tag_of(buffer_bytes(&text), tag_out);
    return SUCCESS;
}

struct result document_answer_shown(struct request *request, const json_t *value, bool is_whole, struct error *err)
{
    char tag[ENTITY_TAG_SIZE];

    TRY(tag_of_description(value, tag, err));
    response_json(request, 200, value);
    if (is_whole) api_answer_tagged(request, tag, "the document");
    else response_header(request, "ETag", "%s", tag);
    return SUCCESS;
}

static struct result note_tag(void *context, const struct pinned_document *pinned, struct error *err)
{
    json_t *described = NULL;

    TRY(document_describe(pinned->document, pinned->sequence, &described, err));
    OWNED_JSON value = described;
    return tag_of_description(value, context, err);
}

struct result document_condition(struct request *request, struct pg *pg, const struct document *document, bool *holds_out,
                                 struct error *err)
{
    char tag[ENTITY_TAG_SIZE] = "";
    struct document_scope scope;
    struct error none = {0};

    *holds_out = true;
    if (request_header(request, "If-Match") == NULL && request_header(request, "If-None-Match") == NULL) return SUCCESS;
    TRY(document_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), document->scope, &scope, err));
    const struct view_range one = {document->kind, &scope, document->name, 1};
    const struct result found = document_view_find(request->gateway->documents, &one, note_tag, tag, &none);
    if (!found.ok && none.kind != ERROR_NOT_FOUND) return failure(err, none.kind, "%s", none.message);
    *holds_out = api_condition_holds(request, tag[0] == '\0' ? NULL : tag);
    if (!*holds_out) api_answer_changed(request, "the document that is in force");
    return SUCCESS;
}
