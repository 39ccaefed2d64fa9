/* GET /api/v1/access/review: who can do what inside a scope, and when it was last used (docs/identity.md, "A review of access"). */
#include "policy/decider/review.h"

#include <string.h>
#include <time.h>

#include "audit/last_use.h"
#include "authz/binding.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/audit_index.h"
#include "registry/names/reference.h"

#define PAGE_MAX        200
#define PAGE_MS         1500 /* then the page ends, with a `next` */
#define UNUSED_DAYS     90
#define UNUSED_DAYS_MAX 3660
#define DAY_MS          INT64_C(86400000)
#define WAIT_INDEX_MS   2000
#define LOOK_EVERY_NS   10000000L

PART(reviewed_role, "a role that somebody has",
     HAS_ID("id", REQUIRED, "of the binding; of a role by a document: of this version of it"),
     HAS_WORD("kind", REQUIRED, "robot external rule", "of the principal"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 255, "of the robot, the subject, or the trust rule"),
     HAS_TEXT("issuer", OPTIONAL, FORM_FREE, 1, 255, "of a subject"),
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it"),
     HAS_TEXT("person", REQUIRED | NULLABLE, FORM_FREE, 1, 0, "the one person that it counts as; null: nobody, or several"),
     HAS_TEXT("role", REQUIRED, FORM_FREE, 1, 64, "its name"),
     HAS_COUNT("role_version", OPTIONAL, "of a role of a signed document: the version that is in force"),
     HAS_TEXT("bound_as", OPTIONAL, FORM_FREE, 1, 64,
              "of an unsigned-officer: the role of its binding, which no document of officers makes count"),
     HAS_FLAG("one_person", OPTIONAL,
              "true: the administrator of a registry on one machine, which counts as one person whoever uses it"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 255, "where; empty: the registry"),
     HAS_WORD("origin", REQUIRED, "binding rule group break-glass",
              "a binding, or a signed document: a trust rule, roles of groups, a broken glass"),
     HAS_TEXT("document", OPTIONAL, FORM_FREE, 1, 255, "its name; of a binding: of the document of officers that makes it count"),
     HAS_TEXT("granted_by", OPTIONAL, FORM_FREE, 1, 79, "of a binding: the principal that granted it"),
     HAS_TIME("granted", OPTIONAL, "since when it is there"),
     HAS_TIME("expires", OPTIONAL, "when it ends; left out: it has no end"),
     HAS_TIME("last_used", OPTIONAL,
              "when its principal last did something there that the role permits; left out: never, as far as the log is known"),
     HAS_COUNT("last_event", OPTIONAL, "the number of that event"),
     HAS_FLAG("deactivated", REQUIRED,
              "true: SCIM has deactivated the person, or never provisioned it, so the role gives nothing while it is so"),
     HAS_FLAG("searched", REQUIRED, "false: the log is too long to say when it was used"),
     HAS_FLAG("unused", REQUIRED,
              "true: it is there for unused_days, and was not used in them; never while known_to is smaller than wanted_to"))
SCHEMA(
    access_review, "a page of the roles inside a scope", HAS_LIST("roles", REQUIRED, PAGE_MAX, schema_reviewed_role, "by id"),
    HAS_NEXT,
    HAS_WORD(
        "officers", REQUIRED, "bindings documents",
        "what gives the roles of administrators and officers: bindings alone still, or only those that a document makes count"),
    HAS_COUNT("known_to", REQUIRED, "uses in events before this number are known"),
    HAS_COUNT("wanted_to", REQUIRED, "the answer is complete if known_to is not smaller; else ask again later"),
    HAS_COUNT("unused_days", REQUIRED, "days without use that make a role unused"))

/* A review while its answer is made. */
struct review {
    struct request *request;
    struct pg *pg;
    struct reviewed_page page;
    int64_t unused_days, now_ms;
    size_t shown;
    uint64_t known, wanted; /* how far the index of searches knows the log, and should */
    json_t *list;
};

struct result target_access_review(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup;
    if (scope == NULL || scope[0] == '\0') (void)api_pair(request, ACTION_ACCESS_REVIEW, RESOURCE_SYSTEM, "");
    else if (namespace_name_is_valid(bytes_of_text(scope)))
        (void)api_pair(request, ACTION_ACCESS_REVIEW, RESOURCE_ORGANISATION, scope);
    else if (api_is_project_name(scope)) (void)api_pair(request, ACTION_ACCESS_REVIEW, RESOURCE_PROJECT, scope);
    else return failure(err, ERROR_INVALID, "scope is an organisation, or organisation/project");
    return SUCCESS;
}

static struct result read_days(const struct request *request, int64_t *days_out, struct error *err)
{
    const char *days = request_argument(request, "unused_days");
    uint64_t value = UNUSED_DAYS;

    if (days != NULL && !text_to_u64(bytes_of_text(days), UNUSED_DAYS_MAX, &value))
        return failure(err, ERROR_INVALID, "unused_days is a number of days, at most %d", UNUSED_DAYS_MAX);
    *days_out = (int64_t)value;
    return SUCCESS;
}

static void take_time(void *context, const struct uuid *id, int64_t created_ms)
{
    struct reviewed_page *page = context;

    for (size_t i = 0; i < page->count; i++)
        if (uuid_equal(&page->roles[i].id, id)) page->roles[i].granted_ms = created_ms;
}

static struct result find_times(struct review *review, struct error *err)
{
    struct bytes ids[PAGE_MAX];

    for (size_t i = 0; i < review->page.count; i++) ids[i] = uuid_bytes(&review->page.roles[i].id);
    return binding_since(review->request->permit, review->pg, ids, review->page.count,
                         &(struct binding_times){take_time, &review->page}, err);
}

static struct result find_use(const struct review *review, const struct reviewed_role *role, struct last_use *use_out,
                              struct error *err)
{
    const struct search_source source = {review->pg, review->request->gateway->keyd, review->request->gateway->origin};
    bool permits[ACTION_COUNT];

    for (enum action action = 0; action < ACTION_COUNT; action++) permits[action] = binding_permits(&role->binding, action);
    const struct role_use asked = {
        .issuer = role->principal.issuer, .subject = role->principal.subject, .scope = &role->scope, .permits = permits};
    TRY(audit_last_use(review->request->permit, &source, &asked, use_out, err));
    /* A robot that was made again under a name has its own role: what the one before did is no use of it. */
    if (use_out->is_used && strcmp(role->origin, "binding") == 0 && use_out->wall_ms < role->granted_ms) use_out->is_used = false;
    return SUCCESS;
}

static json_t *describe(const struct reviewed_role *role)
{
    const bool is_robot = role->principal.kind == PRINCIPAL_ROBOT, is_document = role->document[0] != '\0',
               is_rule = strcmp(role->origin, "rule") == 0, is_bound = strcmp(role->origin, "binding") == 0,
               is_one = strcmp(role->person.key, PERSON_ADMINISTRATOR) == 0;
    char id[UUID_TEXT_SIZE], key[PRINCIPAL_KEY_SIZE];

    uuid_format(&role->id, id);
    principal_key(&role->principal, key);
    return json_pack("{s:s, s:s, s:s, s:s*, s:s, s:s?, s:s, s:o*, s:s*, s:o*, s:s, s:s, s:s*, s:s*}", "id", id, "kind",
                     is_robot  ? "robot"
                     : is_rule ? "rule"
                               : "external",
                     "name", role->principal.subject, "issuer", is_robot || is_rule ? NULL : role->principal.issuer, "principal",
                     key, "person", role->person.key[0] != '\0' ? role->person.key : NULL, "role",
                     binding_role_name(&role->binding), "role_version",
                     role->binding.own.version == 0 ? NULL : json_integer((json_int_t)role->binding.own.version), "bound_as",
                     role->bound_as, "one_person", is_one ? json_true() : NULL, "scope", role->scope.name, "origin", role->origin,
                     "document", is_document ? role->document : NULL, "granted_by", is_bound ? role->granted_by : NULL);
}

static struct result add_role(struct review *review, const struct reviewed_role *role, struct error *err)
{
    const int64_t cut_ms = review->now_ms - review->unused_days * DAY_MS;
    struct last_use use = {.is_used = false};
    OWNED_JSON value = describe(role);

    TRY(find_use(review, role, &use, err));
    const bool is_known = !use.is_late && review->known >= review->wanted;
    const bool is_unused = is_known && role->granted_ms <= cut_ms && (!use.is_used || use.wall_ms <= cut_ms);
    if (value == NULL || !api_set_time(value, "granted", role->granted_ms) || !api_set_time(value, "expires", role->expires_ms) ||
        !api_set_time(value, "last_used", use.is_used ? use.wall_ms : 0) ||
        (use.is_used && json_object_set_new(value, "last_event", json_integer((json_int_t)use.sequence)) != 0) ||
        json_object_set_new(value, "deactivated", json_boolean(role->is_deactivated)) != 0 ||
        json_object_set_new(value, "searched", json_boolean(!use.is_late)) != 0 ||
        json_object_set_new(value, "unused", json_boolean(is_unused)) != 0 || json_array_append(review->list, value) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    return SUCCESS;
}

static struct result answer(struct review *review, struct error *err)
{
    const bool has_more = review->page.has_more || review->shown < review->page.count;
    char next[UUID_TEXT_SIZE] = "";

    if (has_more) uuid_format(&review->page.roles[review->shown - 1].id, next);
    OWNED_JSON value =
        json_pack("{s:O, s:s*, s:s, s:I, s:I, s:I}", "roles", review->list, "next", has_more ? next : NULL, "officers",
                  review->page.demands_officers ? "documents" : "bindings", "known_to", (json_int_t)review->known, "wanted_to",
                  (json_int_t)review->wanted, "unused_days", (json_int_t)review->unused_days);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    response_json(review->request, 200, value);
    return has_more ? api_link_next(review->request, next, err) : SUCCESS;
}

/*
 * The index is written behind the log. A review waits a moment for it; if that is too short, the answer says how far the index goes. The review's own event is no use of a role that
 * it could show, and is not waited for: the newest event is always behind the index.
 */
static struct result await_index(struct review *review, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + WAIT_INDEX_MS;
    const struct timespec rest = {.tv_nsec = LOOK_EVERY_NS};
    uint64_t size = 0;

    TRY(last_use_known(review->request->permit, review->pg, &review->known, &size, err));
    review->wanted = permit_sequence(review->request->permit);
    while (review->known < review->wanted && clock_monotonic_ms() < until_ms) {
        audit_index_wake(review->request->gateway->audit_index);
        (void)nanosleep(&rest, NULL);
        TRY(last_use_known(review->request->permit, review->pg, &review->known, &size, err));
    }
    return SUCCESS;
}

/* The page has one role at least, so a list of pages comes to its end. */
static struct result fill(struct review *review, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + PAGE_MS;

    TRY(await_index(review, err));
    TRY(find_times(review, err));
    while (review->shown < review->page.count && (review->shown == 0 || clock_monotonic_ms() < until_ms))
        TRY(add_role(review, &review->page.roles[review->shown++], err));
    return answer(review, err);
}

static struct result handle_access_review(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON list = json_array();
    struct review review = {.request = request, .pg = pg, .now_ms = clock_wall_ms(), .list = list};
    struct uuid after = {{0}};
    struct api_page page;

    TRY(api_scope_exists(&request->pairs[0].resource, err));
    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_id(&page, &after, err));
    TRY(read_days(request, &review.unused_days, err));
    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    TRY(decider_review(request->permit, request->gateway->decider, &after, page.limit < PAGE_MAX ? page.limit : PAGE_MAX,
                       &review.page, err));
    const struct result filled = fill(&review, err);
    free(review.page.roles);
    return filled;
}

const struct handler handler_access_review = {.handle = handle_access_review, .is_long = true};
