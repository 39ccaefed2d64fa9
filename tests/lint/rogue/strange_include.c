/* layers: has the form "folder/file.h"
 * reach: rogue.c reads audit/own_reads.h, which tests/lint/closed_headers.txt closes
 * The name of the header is a macro. */
#define HEADER "audit/own_reads.h"
#include HEADER

#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    (void)request, (void)pg, (void)err;
    return SUCCESS;
}
