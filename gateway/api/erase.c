/* DELETE of organisations, projects and repositories, and the plan of a deletion: docs/deletion.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/holds.h"
#include "gateway/pipeline/route.h"
#include "policy/decider/decider.h"
#include "registry/content_hold.h"
#include "registry/jobs/erase.h"
#include "registry/metrics.h"
#include "registry/names/reference.h"

#define KEPT_SHOWN  100 /* kept repositories that a plan names; it counts all of them */
#define PLAN_MAX    ((size_t)128 << 10)
#define DIGEST_SIZE (sizeof "sha256:" + 2 * SHA256_SIZE)
#define DAY_MS      INT64_C(86400000)
#define HOLD_POLICY "content-hold" /* in the place of a policy: what keeps it is none */
#define TRIES       5              /* rights of the organisation may change during a try */

PART(kept, "a repository that a policy keeps", HAS_TEXT("repository", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "its name"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 0, "the rule that keeps it"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 1, 0, "the policy of the rule"),
     HAS_TIME("until", OPTIONAL, "until when; left out: without an end"))
SCHEMA(deletion_plan, "what a deletion would remove",
       HAS_TEXT("plan", REQUIRED, FORM_DIGEST, 71, 71, "the digest of this plan; the deletion names it"),
       HAS_WORD("kind", REQUIRED, "organisation project repository", "what would be deleted"),
       HAS_TEXT("name", REQUIRED, FORM_FREE, 1, RESOURCE_NAME_MAX, "its name"), HAS_ID("id", REQUIRED, "its id"),
       HAS_TEXT("content", REQUIRED, FORM_FREE, 64, 64, "a digest of the names and digests that are in it"),
       HAS_COUNT("projects", REQUIRED, "projects"), HAS_COUNT("repositories", REQUIRED, "repositories"),
       HAS_COUNT("tags", REQUIRED, "tags"), HAS_COUNT("manifests", REQUIRED, "manifests"), HAS_COUNT("blobs", REQUIRED, "blobs"),
       HAS_COUNT("bytes", REQUIRED, "bytes of the blobs"),
       HAS_COUNT("blobs_shared", REQUIRED, "blobs that stay, because other repositories have them"),
       HAS_COUNT("uploads", REQUIRED, "open uploads"), HAS_COUNT("bindings", REQUIRED, "roles that were given"),
       HAS_COUNT("robots", REQUIRED, "robots"), HAS_COUNT("labels", REQUIRED, "floor labels"),
       HAS_COUNT("tags_immutable", REQUIRED, "tags that rules keep as they are"),
       HAS_COUNT("drafts", REQUIRED, "drafts of signed documents"),
       HAS_COUNT("documents", REQUIRED, "signing keys and runners that are no longer valid after the deletion"),
       HAS_COUNT("kept_count", REQUIRED, "repositories that policies keep"),
       HAS_LIST("kept", REQUIRED, KEPT_SHOWN, schema_kept, "the first of them"))

/* The plan of a deletion, as the API shows it. */
struct plan {
    struct erase_counts counts;
    uint64_t epoch; /* of the rights and policies at the time of the plan */
    int64_t kept_count;
    json_t *kept; /* the first kept repositories, each with its rule */
    char immutable[RESOURCE_NAME_MAX + 130];
    char digest[DIGEST_SIZE]; /* of the shown plan */
    json_t *shown;
};

static void plan_done(struct plan *plan)
{
    json_decref(plan->kept);
    json_decref(plan->shown);
}
#define OWNED_PLAN __attribute__((cleanup(plan_done))) struct plan

/* The route's pattern has "organisations", "projects" or "repositories". */
static enum resource_kind kind_of(const struct request *request)
{
    const char *what = request->route->pattern + sizeof "/api/v1/" - 1;

    return what[0] == 'o' ? RESOURCE_ORGANISATION : what[0] == 'p' ? RESOURCE_PROJECT : RESOURCE_REPOSITORY;
}

static bool is_name(const struct request *request, enum resource_kind kind)
{
    struct repository_name name;
    struct error wrong = {0};

    if (kind == RESOURCE_ORGANISATION) return namespace_name_is_valid(bytes_of_text(request->name));
    if (kind == RESOURCE_PROJECT) return api_is_project_name(request->name);
    return repository_name_split(bytes_of_text(request->name), &name, &wrong).ok;
}

static struct result target(struct request *request, enum action action)
{
    const enum resource_kind kind = kind_of(request);

    if (is_name(request, kind)) (void)api_pair(request, action, kind, request->name);
    else response_unknown(request);
    return SUCCESS;
}

struct result target_erase(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target(request, erase_action(kind_of(request)));
}

struct result target_erase_plan(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return target(request, ACTION_DELETION_PLAN);
}

/* ---- repositories that policies keep ---- */

/* A legal hold has no end, and no policy. */
static void add_hold(const struct erase_repository *repository, struct policy_retention *retention)
{
    if (!repository->is_held) return;
    retention->for_ever = true;
    (void)snprintf(retention->rule, sizeof retention->rule, "%s", CONTENT_HOLD_RULE);
    (void)snprintf(retention->policy, sizeof retention->policy, "%s", HOLD_POLICY);
}

static bool is_kept(const struct policy_retention *retention, const struct erase_repository *repository, int64_t now_ms)
{
    return retention->for_ever || (retention->days > 0 && (now_ms - repository->stored_ms) / DAY_MS < retention->days);
}

static struct result show_kept(struct plan *plan, const struct erase_repository *repository,
                               const struct policy_retention *retention, struct error *err)
{
    char until[CLOCK_TEXT_SIZE] = "";

    if (plan->kept_count++ >= KEPT_SHOWN) return SUCCESS;
    if (!retention->for_ever && retention->days < 100000) clock_format(repository->stored_ms + retention->days * DAY_MS, until);
    json_t *entry = json_pack("{s:s, s:s, s:s, s:s*}", "repository", repository->name, "rule", retention->rule, "policy",
                              retention->policy, "until", until[0] == '\0' ? NULL : until);
    if (entry != NULL && json_array_append_new(plan->kept, entry) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

static struct result check_page(const struct request *request, struct plan *plan, const struct erase_repository *repositories,
                                size_t count, struct error *err)
{
    const int64_t now_ms = clock_wall_ms();

    for (size_t i = 0; i < count; i++) {
        struct policy_retention retention;
        TRY(decider_retention(request->gateway->decider, repositories[i].name, now_ms, &retention, err));
        add_hold(&repositories[i], &retention);
        if (is_kept(&retention, &repositories[i], now_ms)) TRY(show_kept(plan, &repositories[i], &retention, err));
    }
    return SUCCESS;
}

static struct result check_all(const struct request *request, struct pg *pg, const struct erase_view *view, struct plan *plan,
                               struct erase_repository *repositories, struct error *err)
{
    char last[RESOURCE_NAME_MAX + 1] = "";
    struct erase_page page = {.last = last, .repositories = repositories, .count = ERASE_PAGE};

    while (page.count == ERASE_PAGE) {
        TRY(erase_repositories(request->permit, pg, view, &page, err));
        TRY(check_page(request, plan, repositories, page.count, err));
        if (page.count > 0) (void)snprintf(last, sizeof last, "%s", repositories[page.count - 1].name);
    }
    return SUCCESS;
}

static struct result check_policies(const struct request *request, struct pg *pg, const struct erase_view *view,
                                    struct plan *plan, struct error *err)
{
    struct erase_repository *repositories = memory_zeroed(ERASE_PAGE, sizeof *repositories);

    plan->kept = json_array();
    if (repositories == NULL || plan->kept == NULL) {
        free(repositories);
        return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    }
    const struct result checked = check_all(request, pg, view, plan, repositories, err);
    free(repositories);
    return checked;
}

/* ---- the plan ---- */

static json_t *describe(const struct resource *where, const struct plan *plan)
{
    static const char *const kinds[] = {"", "organisation", "project", "repository"};
    const struct erase_counts *counts = &plan->counts;
    const struct uuid *id = where->kind == RESOURCE_ORGANISATION ? &where->organisation
                            : where->kind == RESOURCE_PROJECT    ? &where->project
                                                                 : &where->repository;
    char id_text[UUID_TEXT_SIZE], content[2 * SHA256_SIZE + 1];

    uuid_format(id, id_text);
    text_hex(counts->content, sizeof counts->content, content);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O}",
                     "kind", kinds[where->kind], "name", where->name, "id", id_text, "content", content, "projects",
                     (json_int_t)counts->projects, "repositories", (json_int_t)counts->repositories, "tags",
                     (json_int_t)counts->tags, "manifests", (json_int_t)counts->manifests, "blobs", (json_int_t)counts->blobs,
                     "bytes", (json_int_t)counts->bytes, "blobs_shared", (json_int_t)counts->blobs_shared, "uploads",
                     (json_int_t)counts->uploads, "bindings", (json_int_t)counts->bindings, "robots", (json_int_t)counts->robots,
                     "labels", (json_int_t)counts->labels, "tags_immutable", (json_int_t)counts->tags_immutable, "drafts",
                     (json_int_t)counts->drafts, "documents", (json_int_t)counts->documents, "kept_count",
                     (json_int_t)plan->kept_count, "kept", plan->kept);
}

/* The digest is of the canonical JSON of all other members of the shown plan. */
static struct result set_digest(const struct resource *where, struct plan *plan, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PLAN_MAX);
    uint8_t digest[SHA256_SIZE];

    plan->shown = describe(where, plan);
    if (plan->shown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    TRY(json_write_canonical(&text, plan->shown, err));
    sha256_of(buffer_bytes(&text), digest);
    memcpy(plan->digest, "sha256:", sizeof "sha256:");
    text_hex(digest, sizeof digest, plan->digest + sizeof "sha256:" - 1);
    if (json_object_set_new(plan->shown, "plan", json_string(plan->digest)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

static struct result make_plan(const struct request *request, struct pg *pg, struct plan *plan, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    const struct erase_view view = {.action = request->pairs[0].action, .where = where};

    plan_done(plan);
    memset(plan, 0, sizeof *plan);
    plan->epoch = decider_epoch(request->gateway->decider); /* read before the policies are evaluated */
    TRY(erase_count(request->permit, pg, &view, &plan->counts, err));
    TRY(check_policies(request, pg, &view, plan, err));
    if (plan->counts.tags_immutable > 0)
        TRY(erase_immutable_tag(request->permit, pg, &view, plan->immutable, sizeof plan->immutable, err));
    return set_digest(where, plan, err);
}

/* ---- answers ---- */

static bool is_there(const struct request *request)
{
    const struct resource *where = &request->pairs[0].resource;

    if (where->kind == RESOURCE_ORGANISATION) return !uuid_is_nil(&where->organisation);
    return !uuid_is_nil(where->kind == RESOURCE_PROJECT ? &where->project : &where->repository);
}

/* Records that the deletion was allowed but not done, and makes the answer. */
static struct result refuse(struct request *request, unsigned status, const char *title, const char *why, const struct plan *plan,
                            struct error *err)
{
    char note[32];

    (void)snprintf(note, sizeof note, "status %u", status);
    TRY(request_record_outcome(request, OUTCOME_FAILED, note, NULL, err));
    OWNED_JSON extra = json_pack("{s:O}", "plan", plan->shown);
    if (extra == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    if (plan->kept_count > 0 && json_object_update(extra, json_array_get(plan->kept, 0)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_problem_with(request, status, title, why, extra);
    return SUCCESS;
}

static struct result refuse_kept(struct request *request, const struct plan *plan, struct error *err)
{
    const json_t *first = json_array_get(plan->kept, 0);
    char why[512];

    if (plan->kept_count == 0) {
        (void)snprintf(why, sizeof why, "the project's rules make the tag %s immutable: change the rules first", plan->immutable);
        return refuse(request, 403, "Not allowed", why, plan, err);
    }
    const char *rule = json_text_of(first, "rule"), *policy = json_text_of(first, "policy"),
               *until = json_text_of(first, "until");
    const bool is_hold = strcmp(rule, CONTENT_HOLD_RULE) == 0;
    metric_add(&registry_metrics_rows[is_hold ? METRIC_KEPT_BY_HOLD : METRIC_KEPT_BY_POLICY], 1);
    (void)snprintf(why, sizeof why, "%s of policy %s keeps %s until %s; %lld repositories in all", rule, policy,
                   json_text_of(first, "repository"),
                   is_hold                                ? "two persons release the hold"
                   : strcmp(rule, "SYS-PIN-MISSING") == 0 ? "a set has the policy again, or declassifies it"
                   : until == NULL                        ? "later than anybody can plan"
                                                          : until,
                   (long long)plan->kept_count);
    return refuse(request, 403, "Not allowed", why, plan, err);
}

/* Deletes in one transaction, if nothing changed since the count. */
static struct result erase_now(struct request *request, struct pg *pg, struct plan *plan, struct error *err)
{
    const struct erase_view view = {.action = request->pairs[0].action, .where = &request->pairs[0].resource};
    struct erase erase;

    TRY(erase_catch_up(request->permit, pg, &view, &plan->counts, err));
    erase_prepare(&request->pairs[0].resource, &plan->counts, plan->epoch, &erase);
    TRY(request_record_outcome(request, OUTCOME_COMPLETED, plan->digest, &erase.change, err));
    struct error late = {0};
    if (!decider_refresh(request->gateway->decider, &late).ok)
        log_error("a deletion is recorded, but not in force here yet", &late);
    response_empty(request, 204);
    return SUCCESS;
}

/* One try. Success: it was deleted, or the answer says why not. ERROR_CONFLICT: something changed during the try. */
static struct result try_erase(struct request *request, struct pg *pg, struct plan *plan, struct error *err)
{
    const char *named = request_argument(request, "plan");

    TRY(holds_follow(request->gateway, pg, err));
    TRY(make_plan(request, pg, plan, err));
    if (plan->kept_count > 0 || plan->counts.tags_immutable > 0) return refuse_kept(request, plan, err);
    if (named == NULL && !erase_is_empty(&plan->counts))
        return refuse(request, 409, "It is not empty", "look at the plan, and name its digest: ?plan=sha256:...", plan, err);
    if (named != NULL && strcmp(named, plan->digest) != 0)
        return refuse(request, 409, "It changed meanwhile", "this is not what was planned any more: look at the new plan", plan,
                      err);
    return erase_now(request, pg, plan, err);
}

static struct result handle_erase(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_PLAN plan = {.kept_count = 0};

    if (!is_there(request)) {
        response_unknown(request);
        return SUCCESS;
    }
    for (unsigned i = 0; i < TRIES; i++) {
        const struct result tried = try_erase(request, pg, &plan, err);
        if (tried.ok || err->kind != ERROR_CONFLICT) return tried;
    }
    return refuse(request, 409, "It changed meanwhile", "rights or contents change while it is deleted: try again", &plan, err);
}

static struct result handle_plan(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_PLAN plan = {.kept_count = 0};

    if (!is_there(request)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(holds_follow(request->gateway, pg, err));
    TRY(make_plan(request, pg, &plan, err));
    response_json(request, 200, plan.shown);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_erase = {.handle = handle_erase, .is_long = true};
const struct handler handler_erase_plan = {.handle = handle_plan, .is_long = true};
