/* layers: storage/driver_s3.h
 * reach: rogue.c reads storage/driver.h
 * reach: rogue.c needs driver_fs_open\(\), which works without a permit
 * The driver of a region, by a header that includes its own. */
#include "gateway/pipeline/request.h"
#include "storage/driver_s3.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct uuid blob = {{0}};
    struct driver *driver = NULL;

    (void)pg, (void)request;
    TRY(driver_fs_open("/srv/sijil/regions/local", 0, &driver, err));
    return driver->operations->remove(driver, &blob, NULL, 0, err);
}
