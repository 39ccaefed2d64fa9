/*
 * Memory of bodies that are gathered. Manifests and documents together have one limit, whatever their
 * clients announce: memory is taken as bytes come, and counted as it is taken; one principal may have a part of it, and one organisation half. Forms come from
 * strangers: a limit for all of them would be one that strangers can use up, so that nobody gets a token. They are small, and as
 * many as there are connections at most.
 */
#include "gateway/pipeline/exchange_priv.h"

#define PRINCIPALS 8 /* at least as many are needed to use up what all have together */

/* What comes before a decision has a share of its own, so that who may nothing does not keep out who may send. */
enum kind { UNDECIDED, ALLOWED, KINDS };
_Static_assert(KINDS == QUOTA_HELD, "both are counted for each principal");

struct share {
    enum kind kind;
    int64_t of_all, of_organisation, of_one;
};

static struct share share_of(const struct exchange *exchange)
{
    const int64_t all = exchange->request.gateway->settings->gathered_size_max, undecided = all / 4;
    const bool is_allowed = exchange->request.route->body == BODY_ALLOWED;
    struct share share = {.kind = is_allowed ? ALLOWED : UNDECIDED, .of_all = is_allowed ? all - undecided : undecided};
    const int64_t one_body = 1 + (is_allowed ? BODY_ALLOWED_MAX : BODY_UNDECIDED_MAX); /* as large as a buffer gets */

    share.of_one = share.of_all / PRINCIPALS > one_body ? share.of_all / PRINCIPALS : one_body;
    share.of_organisation = share.of_all / 2 > share.of_one ? share.of_all / 2 : share.of_one;
    return share;
}

bool body_memory_hold(struct exchange *exchange, int64_t bytes)
{
    static const char one[] = "this client has too many manifests and documents on their way at a time; try again in a second";
    static const char realm[] = "this organisation has too many manifests and documents on their way at a time; try again in a second";
    static const char all[] = "too many manifests and documents are on their way already; try again in a second";
    struct gateway *gateway = exchange->request.gateway;
    struct quota_ticket *tickets = exchange->shares.tickets;

    if (exchange->request.route->body == BODY_FORM) return true;
    const struct share share = share_of(exchange);
    const int64_t now = atomic_fetch_add(&gateway->gathered_bytes[share.kind], bytes) + bytes;
    const bool is_one_within = quota_hold(gateway->quota, &tickets[TICKET_PRINCIPAL], share.kind, bytes, share.of_one);
    const bool is_realm_within = quota_hold(gateway->quota, &tickets[TICKET_ORGANISATION], share.kind, bytes, share.of_organisation);
    if (bytes < 0 || (is_one_within && is_realm_within && now <= share.of_all)) return true;
    if (!is_one_within) exchange_refuse(exchange, 429, one, 1, METRIC_REFUSED_PRINCIPAL);
    else if (!is_realm_within) exchange_refuse(exchange, 429, realm, 1, METRIC_REFUSED_ORGANISATION);
    else exchange_refuse(exchange, 503, all, 1, METRIC_REFUSED_BUSY);
    return false;
}
