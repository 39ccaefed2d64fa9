/* reach: rogue.c has __asm__
 * A call that neither a prototype nor a declaration shows. */
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    (void)request, (void)pg, (void)err;
    __asm__("call pg_reopen");
    return SUCCESS;
}
