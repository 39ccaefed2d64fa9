#include "gateway/pipeline/document.h"

#include <assert.h>

#include "gateway/pipeline/route.h"

struct result request_document(struct request *request, const json_t **document_out, struct error *err)
{
    const struct route *route = request->route;
    OWNED_JSON document = NULL;

    if (request->document == NULL) {
        assert(route->about != NULL && route->about->body->members != NULL);
        TRY(json_read(request->body, route->body_limit, &document, err));
        if (!json_is_object(document)) return failure(err, ERROR_INVALID, "the body is not a JSON object");
        TRY(schema_check(route->about->body, document, err));
        request->document = GIVE(document);
    }
    *document_out = request->document;
    return SUCCESS;
}

void request_document_free(struct request *request)
{
    json_decref(request->document);
    request->document = NULL;
}
