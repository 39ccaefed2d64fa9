/*
 * Memory of gathered bodies. Manifests and documents share one limit, however long their clients announce them: memory is counted as
 * bytes arrive. One principal may have an eighth of it, one organisation half. Forms have no common limit, because they arrive before
 * authentication: clients without credentials could use it up, and then no client would get a token. Forms are small, and there is at most
 * one for each connection.
 */
#include "gateway/pipeline/exchange_priv.h"

#define PRINCIPALS 8 /* at least this many principals are needed to use up the whole */

/* Bodies that arrive before the decision have a separate share, so that clients without rights do not keep out clients with rights. */
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
    const int64_t one_body = 1 + (is_allowed ? BODY_ALLOWED_MAX : BODY_UNDECIDED_MAX); /* the largest size of a buffer */

    share.of_one = share.of_all / PRINCIPALS > one_body ? share.of_all / PRINCIPALS : one_body;
    share.of_organisation = share.of_all / 2 > share.of_one ? share.of_all / 2 : share.of_one;
    return share;
}

bool body_memory_hold(struct exchange *exchange, int64_t bytes)
{
    static const char one[] = "this client has too many manifests and documents on their way at a time; try again in a second";
    static const char realm[] =
        "this organisation has too many manifests and documents on their way at a time; try again in a second";
    static const char all[] = "too many manifests and documents are on their way already; try again in a second";
    struct gateway *gateway = exchange->request.gateway;
    struct quota_ticket *tickets = exchange->shares.tickets;

    if (exchange->request.route->body == BODY_FORM) return true;
    const struct share share = share_of(exchange);
    const int64_t now = atomic_fetch_add(&gateway->gathered_bytes[share.kind], bytes) + bytes;
    const bool is_one_within = quota_hold(gateway->quota, &tickets[TICKET_PRINCIPAL], share.kind, bytes, share.of_one);
    const bool is_realm_within =
        quota_hold(gateway->quota, &tickets[TICKET_ORGANISATION], share.kind, bytes, share.of_organisation);
    if (bytes < 0 || (is_one_within && is_realm_within && now <= share.of_all)) return true;
    if (!is_one_within) exchange_refuse(exchange, 429, one, 1, METRIC_REFUSED_PRINCIPAL);
    else if (!is_realm_within) exchange_refuse(exchange, 429, realm, 1, METRIC_REFUSED_ORGANISATION);
    else exchange_refuse(exchange, 503, all, 1, METRIC_REFUSED_BUSY);
    return false;
}
