#include "gateway/pipeline/runner_gate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "crypto/runner_certificate.h"
#include "documents/view.h"
#include "gateway/pipeline/gateway.h"
#include "policy/decider/decider.h"

/* The documents with the name of the certificate's key. A key may have been enrolled in several scopes. */
struct search {
    const struct runner_certificate *certificate;
    struct enrolled_runner *runner;
    int64_t now_ms;
    unsigned in_force, withdrawn;
};

static void copy_jurisdictions(const json_t *list, struct enrolled_runner *runner)
{
    size_t count = json_array_size(list);

    if (count > RUNNER_JURISDICTIONS_MAX) count = RUNNER_JURISDICTIONS_MAX;
    for (size_t i = 0; i < count; i++)
        (void)snprintf(runner->jurisdictions[i], RUNNER_JURISDICTION_SIZE, "%s", json_string_value(json_array_get(list, i)));
    runner->jurisdiction_count = count;
}

static void copy(const struct pinned_document *pinned, const struct runner_key *key, struct enrolled_runner *runner)
{
    *runner = (struct enrolled_runner){.key = *key, .sequence = pinned->sequence, .expires_ms = pinned->document->expires_ms};
    runner->is_attested = key->attestation != NULL;
    runner->key.jurisdictions = runner->key.nodes = runner->key.attestation = NULL; /* views into a document that is not ours */
    copy_jurisdictions(key->jurisdictions, runner);
    ecdsa_thumbprint(key->point, runner->name); /* document_read_point() has compared them */
    (void)snprintf(runner->scope, sizeof runner->scope, "%s", pinned->document->scope);
}

static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct search *search = context;
    const struct document *document = pinned->document;
    struct runner_key key;

    TRY(runner_key_read(document, &key, err));
    if (document->is_withdrawn) search->withdrawn++;
    if (!document_is_in_force(document, search->now_ms) || !uuid_equal(&key.runner, &search->certificate->runner) ||
        memcmp(key.point, search->certificate->point, sizeof key.point) != 0)
        return SUCCESS;
    copy(pinned, &key, search->runner);
    search->in_force++;
    return SUCCESS;
}

static struct result find(const struct request *request, struct pg *pg, struct search *search, struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};
    char name[ECDSA_THUMBPRINT_SIZE];

    ecdsa_thumbprint(search->certificate->point, name);
    TRY(document_view_follow(gateway->documents, DOCUMENT_RUNNER, &source, err));
    return document_view_visit_name(gateway->documents, DOCUMENT_RUNNER, name, note, search, err);
}

/* The organisation may have been deleted since, and another one may have its name. */
static struct result find_organisation(const struct request *request, struct pg *pg, const struct enrolled_runner *runner,
                                       struct uuid *organisation_out, bool *is_there_out, struct error *err)
{
    struct document_scope scope;
    struct resource resource = {.kind = RESOURCE_SYSTEM};

    TRY(document_scope_find(lookup_of(pg), runner->scope, &scope, err));
    if (runner->scope[0] != '\0') decider_resolve(request->gateway->decider, runner->scope, &resource);
    *organisation_out = resource.organisation;
    *is_there_out = runner->sequence >= scope.since && (runner->scope[0] == '\0' || !uuid_is_nil(&resource.organisation));
    return SUCCESS;
}

static struct result refuse(struct authentication *found, const char *why)
{
    *found = (struct authentication){.error = OAUTH_INVALID_TOKEN};
    (void)snprintf(found->description, sizeof found->description, "%s", why);
    return SUCCESS;
}

static void fill(struct principal *principal, const struct search *search, const struct uuid *organisation)
{
    const struct enrolled_runner *runner = search->runner;

    principal->kind = PRINCIPAL_RUNNER;
    principal->id = runner->key.runner;
    principal->organisation = *organisation;
    principal->expires_ms = runner->expires_ms;
    if (search->certificate->not_after_ms < principal->expires_ms) principal->expires_ms = search->certificate->not_after_ms;
    principal_key(principal, principal->subject);
    (void)snprintf(principal->source, sizeof principal->source, "runner:%s", runner->name);
}

static struct result authenticate_certificate(struct request *request, struct pg *pg, struct search *search,
                                              struct authentication *found, struct error *err)
{
    struct uuid organisation = {{0}};
    bool is_there = false;

    TRY(find(request, pg, search, err));
    if (search->withdrawn > 0) return refuse(found, "this runner was withdrawn: it may do nothing any more");
    if (search->in_force != 1)
        return refuse(
            found,
            "no enrolment of this runner is in force: a new one waits for its approvers (sijil runner approve); one that has expired is made anew");
    TRY(find_organisation(request, pg, search->runner, &organisation, &is_there, err));
    if (!is_there) return refuse(found, "the organisation of this runner was deleted");
    fill(&found->principal, search, &organisation);
    request->runner = search->runner;
    return SUCCESS;
}

enum policy_runner runner_gate_place(const struct request *request)
{
    const struct enrolled_runner *runner = request->runner;
    struct network from;

    if (runner == NULL) return POLICY_RUNNER_NONE;
    if (!runner->is_attested) return POLICY_RUNNER_ENROLLED;
    if (!network_of_socket((const struct sockaddr *)&request->client, &from) || !networks_hold(&runner->key.networks, &from))
        return POLICY_RUNNER_ELSEWHERE;
    return POLICY_RUNNER_ATTESTED;
}

void runner_gate_name(const struct request *request, char place_out[RUNNER_PLACE_SIZE])
{
    const bool is_attested = runner_gate_place(request) == POLICY_RUNNER_ATTESTED;

    (void)snprintf(place_out, RUNNER_PLACE_SIZE, "%s%s", is_attested ? POLICY_ATTESTED_MARK : "", request->runner->key.region);
}

struct result runner_still_counts(const struct request *request, struct pg *pg, bool *counts_out, struct error *err)
{
    struct enrolled_runner now;
    struct search search = {.certificate = request->client_runner, .runner = &now, .now_ms = clock_wall_ms()};

    TRY(find(request, pg, &search, err));
    *counts_out = search.in_force == 1 && search.withdrawn == 0 && now.sequence == request->runner->sequence &&
                  runner_certificate_is_current(search.certificate, search.now_ms);
    return SUCCESS;
}

struct result runner_authenticate_claimed(struct request *request, struct pg *pg, const struct runner_certificate *claimed,
                                          int64_t now_ms, struct authentication *found, struct error *err)
{
    struct search search = {
        .certificate = claimed, .runner = arena_take(request->arena, sizeof(struct enrolled_runner)), .now_ms = now_ms};

    *found = (struct authentication){.error = OAUTH_NONE};
    if (search.runner == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a runner");
    return authenticate_certificate(request, pg, &search, found, err);
}

struct result runner_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                                  struct authentication *found, struct error *err)
{
    const struct runner_certificate *certificate = request->client_runner;

    *found = (struct authentication){.error = OAUTH_NONE};
    if (credential->authorization != NULL)
        return refuse(found, "a runner is known by its client certificate: send no other credential");
    if (certificate == NULL) return SUCCESS; /* the request is treated like one without a credential */
    if (!runner_certificate_is_current(certificate, credential->now_ms))
        return refuse(found, "the certificate of this runner has expired: enrol the runner anew");
    return runner_authenticate_claimed(request, pg, certificate, credential->now_ms, found, err);
}
