/* layers: storage/part_list.h
 * reach: rogue.c reads storage/part_list.h
 * reach: rogue.c needs part_list_forget_blob\(\), which works without a permit
 * Forgets the parts of an upload into a bucket. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "gateway/settings/settings.h"
#include "storage/part_list.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    struct part_list *list = NULL;

    (void)pg;
    TRY(part_list_new(request->gateway->settings->database, &list, err));
    return part_list_forget_blob(list, &request->pairs[0].resource.repository, err);
}
