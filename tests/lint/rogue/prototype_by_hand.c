/* reach: rogue.c needs document_count\(\), and no header that it reads declares it
 * A function of documents/document_store_priv.h, declared here. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

RESULT document_count(struct pg *pg, int kind, uint64_t most, uint64_t *count_out, struct error *err);
struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    uint64_t count = 0;

    (void)request;
    return document_count(pg, 2, 1, &count, err);
}
