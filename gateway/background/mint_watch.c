#include "gateway/background/mint_watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/own_reads.h"
#include "base/log.h"
#include "gateway/pipeline/metrics.h"

#define ENTRIES_AT_A_TIME 1000000 /* entries of the log in one query; an index finds the events of tokens */

static uint64_t beyond(uint64_t signed_, uint64_t recorded)
{
    return signed_ > recorded ? signed_ - recorded : 0;
}

uint64_t mints_unexplained(const struct keyd_identity *identity, const struct audit_mints *recorded)
{
    uint64_t total = 0;

    for (size_t i = 0; i < MINT_SCOPES; i++) total += identity->mints[i];
    const uint64_t all = beyond(total, recorded->all);
    const uint64_t administration = beyond(identity->mints[MINT_ADMINISTRATION], recorded->administration);
    return all > administration ? all : administration;
}

static void log_unexplained(struct mint_watch *watch)
{
    const uint64_t unexplained = mints_unexplained(&watch->said, &watch->recorded);
    char text[24];

    metric_set(&metrics_gateway[METRIC_KEYD_UNEXPLAINED], (int64_t)unexplained);
    if (unexplained > watch->logged) {
        (void)snprintf(text, sizeof text, "%" PRIu64, unexplained);
        log_line(LOG_ERROR, "sijil-keyd signed tokens that no event explains: another program may have asked for them", "tokens",
                 text, NULL);
    }
    watch->logged = unexplained;
}

bool mint_watch_check(struct mint_watch *watch, struct keyd_client *keyd, struct pg *pg)
{
    struct error ignored = {0}; /* /readyz shows it already */

    if (!watch->is_behind && !keyd_identify(keyd, &watch->said, &ignored).ok) return false;
    if (!audit_count_more_mints(pg, &watch->recorded, &watch->next, ENTRIES_AT_A_TIME, &ignored).ok) {
        watch->is_behind = false;
        return false;
    }
    watch->is_behind = watch->next < watch->recorded.log_size;
    if (!watch->is_behind) log_unexplained(watch);
    return watch->is_behind;
}
