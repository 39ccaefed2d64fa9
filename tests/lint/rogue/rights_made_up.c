/* reach: rogue.c needs authz_directory_publish\(\), which works without a permit
 * Trusts an issuer with keys of its own, without an event. */
#include "authz/snapshot.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, const struct issuer_record *issuer, struct error *err);

struct result rogue(struct request *request, const struct issuer_record *issuer, struct error *err)
{
    const struct authz_parts parts = {.issuers = issuer, .issuer_count = 1};
    OWNED(authz_snapshot) *snapshot = NULL;

    TRY(authz_snapshot_build(&parts, &snapshot, err));
    authz_directory_publish(request->gateway->directory, snapshot);
    return SUCCESS;
}
