/* The label that a push brings to its repository: what a manifest states, and what it was made from (docs/policies.md, "A manifest's own label"). */
#include "gateway/oci/manifest_label_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "gateway/http/hosts.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"
#include "policy/decider/region_state.h"
#include "registry/names/reference.h"
#include "registry/registry.h"
#include "registry/stored_blob.h"
#include "storage/lookup.h"

/* Who may label the repository answers for what others keep there. The token of a push can't name that right, so the roles of its owner count. */
static bool may_label(const struct request *request, const struct resource *where)
{
    const struct action_pair pair = {.action = ACTION_REPOSITORY_LABEL, .resource = *where};
    struct principal owner = *request->principal;

    owner.is_limited = false;
    return decider_rights(request->gateway->decider, &owner, &pair, clock_wall_ms()) == AUTHZ_ALLOWED;
}

/* ---- refusals ---- */

struct result manifest_shred(struct request *request, const struct manifest *manifest, const char *note, struct error *err)
{
    struct refused_push refused;

    refused_push_prepare(request->pairs[0].action, oci_where(request), manifest, &refused); /* a promotion is decided as one */
    if (request->permit == NULL) TRY(request_record(request, NULL, err));
    return request_record_outcome(request, OUTCOME_FAILED, note, &refused.change, err);
}

static struct result refuse(struct request *request, const struct manifest *manifest, const char *message, struct error *err)
{
    TRY(manifest_shred(request, manifest, LABEL_IS_REFUSED, err));
    return oci_refuse(request, 403, "DENIED", message);
}

static struct result refuse_place(struct request *request, const struct manifest *manifest, const struct carried_label *answer,
                                  struct error *err)
{
    char message[400];

    (void)snprintf(
        message, sizeof message,
        "the label of this manifest, with those of what it was made from, is one that %.120s can't take: rule %.64s. Push it to"
        " a project whose region may have such content; what only this push has brought is shredded",
        request->name, answer->rule);
    return refuse(request, manifest, message, err);
}

/* ---- what the manifest was made from ---- */

/* The repositories whose labels count. Only those that the client may see: else the answer would tell what lies elsewhere. */
struct lineage {
    size_t count;
    const char *names[MANIFEST_BASES_MAX + LABEL_SOURCES_MAX + 1];
    struct label_sources subject;
    char oci_base[RESOURCE_NAME_MAX + 1];
};

/* A state of the region is no secret from the client, and would take the label off all that is pushed while it lasts. */
static bool is_for_region_alone(const struct decision *decision)
{
    bool is_alone = decision_verdict(decision) == VERDICT_DENY;

    for (size_t i = 0; i < decision_denial_count(decision); i++) {
        const char *rule = decision_denial(decision, i)->rule;
        is_alone = is_alone && (strcmp(rule, REGION_RULE_QUARANTINE) == 0 || strcmp(rule, REGION_RULE_RETIRED) == 0);
    }
    return is_alone;
}

/* The token of a push names the repository that is pushed to, so the roles of its owner count, with the policies. */
static bool may_see(const struct request *request, const char *name)
{
    struct principal owner = *request->principal;
    struct decision_request question = {.principal = &owner, .pair_count = 1, .now_ms = clock_wall_ms()};
    struct action_pair *look = &question.pairs[0];
    OWNED(decision) *decision = NULL;
    struct repository_name parts;
    struct error ignored = {0};

    if (!repository_name_split(bytes_of_text(name), &parts, &ignored).ok) return false;
    look->action = ACTION_MANIFEST_STAT;
    look->resource.kind = RESOURCE_REPOSITORY;
    (void)snprintf(look->resource.name, sizeof look->resource.name, "%s", name);
    resolve_name(request, &look->resource);
    owner.is_limited = false;
    question.client = request_place(request);
    return decider_decide(request->gateway->decider, &question, &decision, &ignored).ok &&
           (decision_verdict(decision) == VERDICT_ALLOW || is_for_region_alone(decision));
}

static void add(struct lineage *lineage, const char *name)
{
    lineage->names[lineage->count++] = name;
}

/* A name with a slip in it would lose the label. It is looked up for those alone that may see it. */
static struct result is_there(const struct request *request, struct pg *pg, const char *name, bool *is_there_out,
                              struct error *err)
{
    const uint64_t version = decider_names_version(request->gateway->decider);
    struct resource where = {.kind = RESOURCE_REPOSITORY};

    *is_there_out = strcmp(name, request->name) == 0;
    if (*is_there_out || !may_see(request, name)) return SUCCESS;
    (void)snprintf(where.name, sizeof where.name, "%s", name);
    resolve_name(request, &where);
    TRY(registry_resolve(request->gateway->registry, lookup_of(pg), version, &where, err));
    *is_there_out = !uuid_is_nil(&where.repository);
    return SUCCESS;
}

/* False, and an answer was made: a base is hidden from the client, or is none. */
static struct result add_bases(struct request *request, struct pg *pg, const struct manifest *manifest, struct lineage *lineage,
                               bool *goes_on_out, struct error *err)
{
    char message[400];

    *goes_on_out = true;
    for (size_t i = 0; i < manifest->base_count && *goes_on_out; i++) {
        const char *name = manifest->bases[i];
        TRY(is_there(request, pg, name, goes_on_out, err));
        if (*goes_on_out) add(lineage, name);
        else {
            (void)snprintf(message, sizeof message,
                           "the annotation " BASE_ANNOTATION " names %.200s: there is no such repository, or you may not see it",
                           name);
            TRY(oci_refuse(request, 400, "MANIFEST_INVALID", message));
        }
    }
    return SUCCESS;
}

/* Whether it is the name that the client calls, or another one of this registry. */
static bool is_own_host(const struct request *request, const char *host)
{
    const struct settings *settings = request->gateway->settings;
    const struct hosts hosts = {settings->public_url, settings->allowed_hosts};
    const char *called = request_header(request, "Host");
    char url[HOSTS_URL_SIZE];

    hosts_url(&hosts, host, url);
    return (called != NULL && strcasecmp(called, host) == 0) || strcasecmp(url + strlen("https://"), host) == 0;
}

/* "HOST/organisation/project/name[:tag][@digest]". Builders write the names of all registries. */
static void add_oci_base(const struct request *request, const struct manifest *manifest, struct lineage *lineage)
{
    const char *name = manifest->oci_base, *slash = name == NULL ? NULL : strchr(name, '/');
    char host[CONFIG_TEXT_SIZE];

    if (slash == NULL || (size_t)(slash - name) >= sizeof host) return;
    (void)snprintf(host, sizeof host, "%.*s", (int)(slash - name), name);
    if (!is_own_host(request, host)) return;
    name = slash + 1;
    if (strcspn(name, ":@") >= sizeof lineage->oci_base) return;
    (void)snprintf(lineage->oci_base, sizeof lineage->oci_base, "%.*s", (int)strcspn(name, ":@"), name);
    if (may_see(request, lineage->oci_base)) add(lineage, lineage->oci_base);
}

/* Whether the repository has the label of `name` already, or a stricter one. */
static struct result covers(const struct request *request, const char *name, bool *covers_out, struct error *err)
{
    const struct carried_query query = {
        .output = request->name, .uses = &name, .use_count = 1, .now_ms = clock_wall_ms(), .only_checks = true};
    struct carried_label answer = {.is_carried = false};

    TRY(decider_carried_label(request->gateway->decider, &query, &answer, err));
    *covers_out = answer.is_carried;
    return SUCCESS;
}

/* A subject may lie in several repositories, under several labels: if one of them has no stricter label than this one, the bytes are not what makes the
 * others strict. */
static struct result add_subject(const struct request *request, struct pg *pg, const struct manifest *manifest,
                                 struct lineage *lineage, struct error *err)
{
    const size_t before = lineage->count;

    if (manifest->subject[0] == '\0') return SUCCESS;
    TRY(label_sources_find(pg, oci_where(request), manifest->subject, &lineage->subject, err));
    for (size_t i = 0; i < lineage->subject.count && !lineage->subject.is_here; i++) {
        const char *name = lineage->subject.names[i];
        bool is_covered = false;
        if (!may_see(request, name)) continue;
        TRY(covers(request, name, &is_covered, err));
        add(lineage, name);
        if (!is_covered) continue;
        lineage->count = before;
        return SUCCESS;
    }
    return SUCCESS;
}

/* ---- the label ---- */

static struct result bring(const struct request *request, const struct carried_query *query, struct manifest_labelling *labelling,
                           struct carried_label *answer, struct error *err)
{
    *answer = (struct carried_label){.label = labelling->text};
    const struct result asked = decider_carried_label(request->gateway->decider, query, answer, err);

    labelling->text = answer->label;
    return asked;
}

static struct result ask(struct request *request, struct manifest_push *push, const struct lineage *lineage,
                         struct manifest_labelling *labelling, bool *goes_on, struct error *err)
{
    const struct carried_query query = {.output = request->name,
                                        .uses = lineage->names,
                                        .use_count = lineage->count,
                                        .stated = push->manifest->label,
                                        .now_ms = clock_wall_ms()};
    struct carried_label answer;
    struct error why = {0};

    const bool is_asked = bring(request, &query, labelling, &answer, &why).ok;
    if (!is_asked && why.kind != ERROR_LIMIT) return failure(err, why.kind, "%s", why.message);
    *goes_on = is_asked && (answer.is_carried || answer.is_allowed);
    if (!is_asked) return refuse(request, push->manifest, why.message, err); /* together with what the repository has */
    if (answer.is_carried) return SUCCESS;
    if (!answer.is_allowed) return refuse_place(request, push->manifest, &answer, err);
    labelling->label = (struct brought_label){.action = ACTION_MANIFEST_PUSH,
                                              .where = oci_where(request),
                                              .manifest = push->digest,
                                              .label = buffer_bytes(&labelling->text),
                                              .may_lock = may_label(request, oci_where(request))};
    push->label = &labelling->label;
    return SUCCESS;
}

struct result manifest_labelling_find(struct request *request, struct pg *pg, struct manifest_push *push,
                                      struct manifest_labelling *labelling, bool *goes_on_out, struct error *err)
{
    struct lineage *lineage = arena_take(request->arena, sizeof *lineage);

    *labelling = (struct manifest_labelling){.text = BUFFER(LABEL_ANNOTATION_MAX)};
    *goes_on_out = false;
    if (lineage == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a push");
    lineage->count = 0;
    TRY(add_bases(request, pg, push->manifest, lineage, goes_on_out, err));
    if (!*goes_on_out) return SUCCESS;
    add_oci_base(request, push->manifest, lineage);
    TRY(add_subject(request, pg, push->manifest, lineage, err));
    *goes_on_out = push->manifest->label == NULL && lineage->count == 0;
    return *goes_on_out ? SUCCESS : ask(request, push, lineage, labelling, goes_on_out, err);
}

/* A mount into a repository that can't have the label of the source is none: the client may still upload the bytes, if it has them. */
struct result mount_labelling_find(struct request *request, const struct action_pair *pairs, struct blob_mount *mount,
                                   struct manifest_labelling *labelling, bool *goes_on_out, struct error *err)
{
    const char *source = pairs[1].resource.name;
    const struct carried_query query = {
        .output = pairs[0].resource.name, .uses = &source, .use_count = 1, .now_ms = clock_wall_ms()};
    struct carried_label answer;

    *labelling = (struct manifest_labelling){.text = BUFFER(LABEL_ANNOTATION_MAX)};
    *goes_on_out = false;
    TRY(bring(request, &query, labelling, &answer, err));
    *goes_on_out = answer.is_carried || answer.is_allowed;
    if (answer.is_carried || !answer.is_allowed) return SUCCESS;
    labelling->label = (struct brought_label){.action = ACTION_BLOB_MOUNT,
                                              .where = &mount->target,
                                              .manifest = mount->digest,
                                              .label = buffer_bytes(&labelling->text),
                                              .may_lock = may_label(request, &mount->target)};
    mount->label = &labelling->label;
    mount->change.raises_epoch = true;
    return SUCCESS;
}

void manifest_labelling_done(struct manifest_labelling *labelling)
{
    buffer_done(&labelling->text);
}
