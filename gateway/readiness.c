#include "gateway/readiness.h"

#include "audit/sequencer.h"
#include "documents/view.h"
#include "policy/decider/decider.h"
#include "registry/maintenance.h"

static struct result result_of(bool is_ready)
{
    return (struct result){.ok = is_ready};
}

static struct result ask_database(const struct pg *pg, struct error *err)
{
    return pg == NULL || !pg_is_broken(pg) ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "the database can't be reached");
}

struct result ready_ask(struct ready_asker *asker, enum ready_part part, struct error *err)
{
    const struct gateway *gateway = asker->gateway;

    switch (part) {
    case READY_LOG: return result_of(sequencer_is_ready(gateway->sequencer, err));
    case READY_RIGHTS: return result_of(decider_is_ready(gateway->decider, err));
    case READY_DATABASE: return ask_database(asker->pg, err);
    case READY_REGIONS: return registry_regions_ready(gateway->registry, err);
    case READY_KEYD:
        return keyd_identify(gateway->keyd, &asker->identity, err); /* without keys there are no tokens and no blobs */
    case READY_DOCUMENTS: return document_view_is_sound(gateway->documents, err);
    case READY_PARTS: break;
    }
    return SUCCESS;
}
