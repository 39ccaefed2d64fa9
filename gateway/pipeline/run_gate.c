#include "gateway/pipeline/run_gate.h"

#include <stdio.h>
#include <string.h>

#include "authz/run_token.h"
#include "base/clock.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "crypto/runner_certificate.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/lease_proofs.h"
#include "gateway/pipeline/resolve.h"
#include "gateway/pipeline/route.h"
#include "gateway/pipeline/runner_gate.h"
#include "training/content.h"
#include "training/format/chain.h"
#include "training/unproven.h"
#include "training/work.h"

#define ENDED "the lease has ended, so its tokens count no more"

bool run_gate_waits(const struct authentication *found, const struct pg *pg)
{
    return found->error == OAUTH_NONE && found->principal.kind == PRINCIPAL_RUN && pg == NULL;
}

static struct result refuse(struct authentication *found, const char *why)
{
    *found = (struct authentication){.error = OAUTH_INVALID_TOKEN};
    (void)snprintf(found->description, sizeof found->description, "%s", why);
    return SUCCESS;
}

/* ---- the runner ---- */

/* claims_check() has compared the token's cnf with the certificate of this connection. */
static struct result check_runner(struct request *request, struct pg *pg, struct run_grant *grant, struct authentication *found,
                                  struct error *err)
{
    const struct runner_certificate *certificate = request->client_runner;
    struct authentication runner;
    const int64_t now_ms = clock_wall_ms();

    if (certificate == NULL || !runner_certificate_is_current(certificate, now_ms))
        return refuse(found, "a token of a run is for its runner alone: the connection has no valid certificate of a runner");
    TRY(runner_authenticate_claimed(request, pg, certificate, now_ms, &runner, err));
    if (runner.error != OAUTH_NONE) return refuse(found, runner.description);
    if (strcmp(request->runner->name, grant->key) != 0) return refuse(found, "the token is another runner's");
    (void)snprintf(grant->region, sizeof grant->region, "%s", request->runner->key.region);
    return SUCCESS;
}

/* ---- the lease ---- */

static struct result check_lease(struct pg *pg, const struct run_grant *grant, struct authentication *found, struct error *err)
{
    struct principal *principal = &found->principal;
    struct run_held held;
    struct error why = {0};

    if (!run_held_find(lookup_of(pg), &grant->holder, &held, &why).ok)
        return why.kind == ERROR_NOT_FOUND ? refuse(found, ENDED) : failure(err, why.kind, "%s", why.message);
    if (held.suspended[0] != '\0') return refuse(found, "the runner's key is suspended");
    if (held.has_ended || run_state_is_end(held.state) || clock_wall_ms() >= held.ends_ms) return refuse(found, ENDED);
    principal->organisation = held.where.organisation;
    principal->expires_ms = held.ends_ms;
    return SUCCESS;
}

/* A row is not believed: what the order names must be what sijil-keyd has signed. */
static struct result read_order(struct pg *pg, const struct uuid *id, const struct ecdsa_key *key,
                                struct run_envelope **order_out, struct error *err)
{
    char run[UUID_TEXT_SIZE];
    OWNED(run_envelope) *order = NULL;
    struct error why = {0};

    TRY(run_order_find(lookup_of(pg), id, &order, err));
    uuid_format(id, run);
    if (strcmp(run_text(order, "run"), run) != 0 || !run_check_signer(order, key, &why).ok)
        return failure(err, ERROR_CORRUPT, "the stored order of run %s is not one that sijil-keyd has signed for it", run);
    *order_out = GIVE(order);
    return SUCCESS;
}

/* Nor is the row of an attempt: only with a signed lease may the runner read the inputs of the order. */
static struct result read_lease(struct pg *pg, const struct run_holder *holder, const struct ecdsa_key *key,
                                struct run_envelope **lease_out, struct error *err)
{
    OWNED(run_envelope) *lease = NULL;
    struct error why = {0};

    if (!run_lease_find(lookup_of(pg), holder, &lease, &why).ok) {
        if (why.kind == ERROR_NOT_FOUND || why.kind == ERROR_INVALID) return failure(err, ERROR_DENIED, "%s", why.message);
        return failure(err, why.kind, "%s", why.message);
    }
    if (!run_check_signer(lease, key, &why).ok) return failure(err, ERROR_DENIED, "sijil-keyd has not signed this lease");
    *lease_out = GIVE(lease);
    return SUCCESS;
}

struct proven_lease {
    struct run_envelope *order, *lease;
};
static void proven_lease_done(struct proven_lease *proven)
{
    run_envelope_free(proven->order);
    run_envelope_free(proven->lease);
}
#define OWNED_PROVEN __attribute__((cleanup(proven_lease_done))) struct proven_lease

static struct result read_proven(const struct request *request, struct pg *pg, const struct run_holder *holder,
                                 struct proven_lease *proven, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    TRY(keyd_signer(request->gateway->keyd, &key, err));
    TRY(read_order(pg, &holder->run, key, &proven->order, err));
    TRY(read_lease(pg, holder, key, &proven->lease, err));
    return run_lease_check(proven->lease, proven->order, holder, clock_wall_ms(), err);
}

static struct result prove_signed(const struct request *request, struct pg *pg, const struct run_holder *holder,
                                  struct run_envelope **order_out, int64_t *ends_ms_out, struct error *err)
{
    OWNED_PROVEN proven = {.order = NULL};

    TRY(read_proven(request, pg, holder, &proven, err));
    *ends_ms_out = run_time(proven.lease, "expires");
    lease_proofs_keep(request->gateway->lease_proofs, holder, proven.order->digest, *ends_ms_out);
    *order_out = GIVE(proven.order);
    return SUCCESS;
}

struct result run_certificate_prove(const struct request *request, struct pg *pg, const struct run_holder *holder,
                                    struct bytes certificate, struct error *err)
{
    OWNED_PROVEN proven = {.order = NULL};
    OWNED(run_envelope) *read = NULL;
    const int64_t now_ms = clock_wall_ms();

    TRY(read_proven(request, pg, holder, &proven, err));
    TRY(run_envelope_read(certificate, RUN_CERTIFICATE, &read, err));
    TRY(run_chain_check_certificate(&(struct run_chain){.order = proven.order, .lease = proven.lease, .certificate = read}, err));
    if (run_time(read, "not_before") <= now_ms + RUN_CLOCK_SKEW_MS && now_ms < run_time(read, "expires")) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "certificate: it has expired, or has not begun: is the clock of the runner's machine right?");
}

struct result run_lease_prove(const struct request *request, struct pg *pg, const struct run_holder *holder,
                              struct run_envelope **order_out, int64_t *ends_ms_out, struct error *err)
{
    OWNED(run_envelope) *order = NULL;

    TRY(run_order_find(lookup_of(pg), &holder->run, &order, err));
    if (!lease_proofs_find(request->gateway->lease_proofs, holder, order->digest, clock_wall_ms(), ends_ms_out))
        return prove_signed(request, pg, holder, order_out, ends_ms_out, err);
    *order_out = GIVE(order);
    return SUCCESS;
}

struct result run_lease_require(const struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err)
{
    OWNED(run_envelope) *order = NULL;
    int64_t ends_ms = 0;

    if (lease_proofs_find(request->gateway->lease_proofs, holder, NULL, clock_wall_ms(), &ends_ms)) return SUCCESS;
    return prove_signed(request, pg, holder, &order, &ends_ms, err);
}

/* ---- what this request may do ---- */

/* A manifest is content of the order on the route of manifests only, and a blob on that of blobs. */
static struct result find_content(const struct request *request, struct pg *pg, const struct run_envelope *order,
                                  struct run_grant *grant, struct principal *principal, struct error *err)
{
    const bool asks_for_manifest = route_has_action(request->route, ACTION_MANIFEST_READ);
    struct resource resource = {.kind = RESOURCE_REPOSITORY};
    struct bytes digests[RUN_ARTIFACTS_MAX];
    struct digest digest;
    struct error ignored;
    struct run_content content = {.is_blob = false};
    const struct run_content_query query = {.repository = &resource.repository,
                                            .digests = digests,
                                            .count = run_order_digests(order, request->name, digests),
                                            .digest = request->reference,
                                            .resume = run_order_resume(order, request->name)};

    principal->access[0].pull = query.count > 0;
    if (query.count == 0 || !route_has_action(request->route, ACTION_RUN_FETCH)) return SUCCESS;
    if (!digest_parse(bytes_of_text(request->reference), &digest, &ignored).ok) return SUCCESS; /* a tag, for example */
    TRY(resolve_for_run(request, lookup_of(pg), &resource, err));
    TRY(run_content_find(lookup_of(pg), &query, &content, err));
    grant->resumes = asks_for_manifest && query.resume != NULL && strcmp(query.resume, query.digest) == 0;
    if (!asks_for_manifest && !content.is_blob && content.is_kept)
        (void)snprintf(grant->checkpoint, sizeof grant->checkpoint, "%s", query.resume);
    if (asks_for_manifest ? content.is_manifest : content.is_blob || content.is_kept)
        (void)snprintf(principal->content, sizeof principal->content, "%s", request->reference);
    return SUCCESS;
}

static struct result fill(struct request *request, struct pg *pg, struct run_grant *grant, const struct run_envelope *order,
                          struct principal *principal, struct error *err)
{
    struct principal_access *access = &principal->access[0];

    grant->upload_max = run_order_upload_max(order, grant->holder.node);
    principal->access_count = 0;
    if (!request->speaks_oci || request->name == NULL || strlen(request->name) >= sizeof access->name) return SUCCESS;
    *access = (struct principal_access){.push = run_order_writes(order, request->name)};
    (void)snprintf(access->name, sizeof access->name, "%s", request->name);
    TRY(find_content(request, pg, order, grant, principal, err));
    principal->access_count = access->pull || access->push ? 1 : 0;
    return SUCCESS;
}

static struct result prove(const struct request *request, struct pg *pg, const struct run_grant *grant,
                           struct authentication *found, struct run_envelope **order_out, struct error *err)
{
    int64_t ends_ms = 0;
    struct error why = {0};

    if (!run_lease_prove(request, pg, &grant->holder, order_out, &ends_ms, &why).ok)
        return why.kind == ERROR_DENIED ? refuse(found, why.message) : failure(err, why.kind, "%s", why.message);
    if (ends_ms < found->principal.expires_ms) found->principal.expires_ms = ends_ms;
    return SUCCESS;
}

struct result run_gate(struct request *request, struct pg *pg, struct authentication *found, struct error *err)
{
    OWNED(run_envelope) *order = NULL;
    struct run_token token;

    if (found->error != OAUTH_NONE || found->principal.kind != PRINCIPAL_RUN || pg == NULL) return SUCCESS;
    struct run_grant *grant = arena_take(request->arena, sizeof *grant);
    if (grant == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the token of a run");
    if (!run_token_of(&found->principal, &token)) return refuse(found, "the token's src is malformed");
    *grant = (struct run_grant){.holder = {.run = token.run, .attempt = token.attempt, .node = token.node, .key = grant->key}};
    (void)snprintf(grant->key, sizeof grant->key, "%s", token.key);
    TRY(check_runner(request, pg, grant, found, err));
    if (found->error == OAUTH_NONE) TRY(check_lease(pg, grant, found, err));
    if (found->error != OAUTH_NONE) return SUCCESS;
    TRY(prove(request, pg, grant, found, &order, err));
    if (found->error != OAUTH_NONE) return SUCCESS;
    TRY(fill(request, pg, grant, order, &found->principal, err));
    request->run = grant;
    return SUCCESS;
}
