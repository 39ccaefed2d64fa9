#include "gateway/pipeline/signed_body.h"

#include "base/json.h"
#include "base/memory.h"
#include "gateway/pipeline/document.h"

/* What is read, and its memory. */
struct signed_document {
    struct signed_body body;
    struct buffer texts[DOCUMENT_SIGNATURES_MAX]; /* the envelopes */
    struct document *document;
};

static void signed_document_free(struct signed_document *read)
{
    if (read == NULL) return;
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) buffer_done(&read->texts[i]);
    document_free(read->document);
    free(read);
}
DEFINE_OWNED(signed_document);

/* In canonical JSON: a client that reads an envelope of a draft and sends it again may have spelled it otherwise. */
static struct result add_envelope(struct request *request, struct signed_document *read, const json_t *envelope,
                                  struct error *err)
{
    struct buffer *text = &read->texts[read->body.count];

    *text = BUFFER(request->body.length);
    TRY(json_write_canonical(text, envelope, err));
    read->body.envelopes[read->body.count++] = buffer_bytes(text);
    return SUCCESS;
}

/* member NULL: the body as a whole */
static struct result add_one(struct request *request, struct signed_document *read, const char *member, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const json_t *envelope = member == NULL ? body : json_object_get(body, member);
    if (!json_is_object(envelope)) return failure(err, ERROR_INVALID, "an envelope is an object");
    return add_envelope(request, read, envelope, err);
}

static struct result add_list(struct request *request, struct signed_document *read, const char *member, struct error *err)
{
    const json_t *body = NULL, *each;
    size_t i;

    TRY(request_document(request, &body, err));
    const json_t *list = json_object_get(body, member);
    if (json_array_size(list) < 1 || json_array_size(list) > DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_INVALID, "envelopes is a list of 1 to %d", DOCUMENT_SIGNATURES_MAX);
    json_array_foreach (list, i, each) {
        if (!json_is_object(each)) return failure(err, ERROR_INVALID, "an envelope is an object");
        TRY(add_envelope(request, read, each, err));
    }
    return SUCCESS;
}

typedef struct result adder(struct request *request, struct signed_document *read, const char *member, struct error *err);

static struct result read_body(struct request *request, adder *add, const char *member, const struct signed_body **body_out,
                               struct error *err)
{
    if (request->signed_document == NULL) {
        OWNED(signed_document) *read = memory_zeroed(1, sizeof *read);
        if (read == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a signed document");
        TRY(add(request, read, member, err));
        TRY(document_read(read->body.envelopes, read->body.count, &read->document, err));
        read->body.document = read->document;
        request->signed_document = GIVE(read);
    }
    *body_out = &request->signed_document->body;
    return SUCCESS;
}

struct result request_envelope(struct request *request, const struct signed_body **body_out, struct error *err)
{
    return read_body(request, add_one, NULL, body_out, err);
}

struct result request_envelope_member(struct request *request, const char *member, const struct signed_body **body_out,
                                      struct error *err)
{
    return read_body(request, add_one, member, body_out, err);
}

struct result request_envelopes(struct request *request, const struct signed_body **body_out, struct error *err)
{
    return read_body(request, add_list, "envelopes", body_out, err);
}

void request_signed_free(struct request *request)
{
    signed_document_free(request->signed_document);
    request->signed_document = NULL;
}
