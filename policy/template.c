#include "policy/template.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/evaluate.h"
#include "policy/no_memory_priv.h"
#include "policy/places.h"
#include "policy/set_priv.h"
#include "policy/template_priv.h"

#define DAY_MS         ((int64_t)86400 * 1000)
#define REVIEW_DAYS    182 /* half a year */
#define REGION_TEXT    256 /* "provider/region=AE/DU,REGIME,...", with room for seven regimes */
#define SCOPE_ROOM     (POLICY_SCOPE_MAX + 4)
#define LETTERS_OF_ONE "abcdefghijklmnopqrstuvwxyz0123456789._-/"

const char *policy_template_regime(size_t index)
{
    size_t count = 0;

    while (count < index && template_texts[count].regime != NULL) count++;
    return template_texts[count].regime;
}

struct result policy_template_read(const char *regime, json_t **template_out, struct error *err)
{
    for (const struct template_text *each = template_texts; each->regime != NULL; each++)
        if (strcmp(each->regime, regime) == 0) return json_read(bytes_of_text(each->text), TEMPLATE_BYTES_MAX, template_out, err);
    return failure(err, ERROR_NOT_FOUND,
                   "there is no template for '%.40s': adgm, cbuae, difc, government, health, pdpl or public", regime);
}

/* ---- the policy ---- */

static struct result check_place(const char *place, struct error *err)
{
    const size_t length = strlen(place);

    if (length > 0 && length <= 128 && strspn(place, LETTERS_OF_ONE) == length && strchr("/.-_", place[0]) == NULL &&
        place[length - 1] != '/' && strstr(place, "//") == NULL)
        return SUCCESS;
    return failure(err, ERROR_INVALID, "'%.60s' is no organisation and no project: clinic, clinic/imaging", place);
}

/* An id has no slash. Two places that differ only there are told apart by the scope; then the second is refused as a conflict. */
static struct result name_policy(const json_t *policy, const char *place, char id_out[TEMPLATE_ID_SIZE], struct error *err)
{
    const char *id = json_text_of(json_object_get(policy, "metadata"), "id");

    const int length = snprintf(id_out, TEMPLATE_ID_SIZE, "%s-%s", id, place);
    if (length >= TEMPLATE_ID_SIZE)
        return failure(err, ERROR_INVALID, "the name '%.60s' is too long for the id of a policy: at most %zu letters", place,
                       TEMPLATE_ID_SIZE - 2 - strlen(id));
    for (char *at = id_out; *at != '\0'; at++)
        if (*at == '/') *at = '.';
    return SUCCESS;
}

struct result policy_template_id(const struct template_answers *answers, char id_out[TEMPLATE_ID_SIZE], struct error *err)
{
    OWNED_JSON whole = NULL;

    TRY(policy_template_read(answers->regime, &whole, err));
    TRY(check_place(answers->place, err));
    return name_policy(json_object_get(whole, "policy"), answers->place, id_out, err);
}

static struct result set_scope_and_days(json_t *metadata, const struct template_answers *answers, struct error *err)
{
    char from[CLOCK_TEXT_SIZE], review[CLOCK_TEXT_SIZE], below[SCOPE_ROOM];

    clock_format(answers->now_ms - answers->now_ms % DAY_MS, from);
    clock_format(answers->now_ms + REVIEW_DAYS * DAY_MS, review);
    review[10] = '\0'; /* the day alone */
    (void)snprintf(below, sizeof below, "%s/**", answers->place);
    OWNED_JSON fresh = json_pack("{s:[s], s:s, s:s}", "scope", below, "effective_from", from, "review_by", review);
    return fresh != NULL && json_object_update(metadata, fresh) == 0 ? SUCCESS : policy_no_memory(err);
}

/* jansson takes no text that is not UTF-8, and says nothing else when there is no memory. */
static struct result no_text(unsigned lacks_before, const char *option, struct error *err)
{
    if (json_lacks() != lacks_before) return policy_no_memory(err);
    return failure(err, ERROR_INVALID, "%s: it is no text of UTF-8", option);
}

static struct result tell_officers(json_t *policy, const struct template_answers *answers, struct error *err)
{
    const unsigned lacks = json_lacks();
    const char *name = NULL;
    json_t *type = NULL;
    OWNED_JSON officers = json_array();

    if (answers->officer_count == 0) return SUCCESS;
    for (size_t i = 0; i < answers->officer_count; i++)
        if (json_array_append_new(officers, json_string(answers->officers[i])) != 0) return no_text(lacks, "--officer", err);
    json_object_foreach (json_object_get(policy, "exception_types"), name, type) {
        json_t *adds = json_object_get(type, "adds");
        if (adds != NULL && json_object_set(adds, "notify", officers) != 0) return policy_no_memory(err);
    }
    return SUCCESS;
}

static struct result fill_policy(json_t *policy, const struct template_answers *answers, struct error *err)
{
    char id[TEMPLATE_ID_SIZE];
    json_t *metadata = json_object_get(policy, "metadata");

    TRY(check_place(answers->place, err));
    TRY(name_policy(policy, answers->place, id, err));
    if (json_object_set_new(metadata, "id", json_string(id)) != 0) return policy_no_memory(err);
    TRY(set_scope_and_days(metadata, answers, err));
    return tell_officers(policy, answers, err);
}

/* ---- the region ---- */

/* "onprem/adgm-1=AE/AZ,ADGM": what was stated, and nothing else. Whoever controls the operator stays unknown. */
static struct result region_of(char *stated, json_t **facts_out, struct error *err)
{
    char *place = stated, *regime = strchr(stated, ',');
    OWNED_JSON regimes = json_array();

    if (regimes == NULL) return policy_no_memory(err);
    while (regime != NULL) {
        *regime++ = '\0';
        char *next = strchr(regime, ',');
        if (next != NULL) *next = '\0';
        if (!regime_is_known(regime)) return failure(err, ERROR_INVALID, "--region: no known regime: %.24s", regime);
        if (json_array_append_new(regimes, json_string(regime)) != 0) return policy_no_memory(err);
        regime = next;
    }
    if (!place_is_known(place)) return failure(err, ERROR_INVALID, "--region: no place of ISO 3166: %.24s", place);
    if (json_array_size(regimes) == 0 && strncmp(place, "AE", 2) == 0)
        (void)json_array_append_new(regimes, json_string("AE-FED"));
    *facts_out = json_pack("{s:s, s:O, s:s, s:{s:s, s:s}}", "geo", place, "regimes", regimes, "location_evidence", "statement",
                           "key", "geo", place, "control", "customer-soft");
    return *facts_out == NULL ? policy_no_memory(err) : SUCCESS;
}

static struct result add_region(json_t *regions, const char *answer, const json_t **facts_out, struct error *err)
{
    char text[REGION_TEXT];
    json_t *facts = NULL;

    if (snprintf(text, sizeof text, "%s", answer) >= (int)sizeof text)
        return failure(err, ERROR_INVALID, "--region: at most %d letters", REGION_TEXT - 1);
    char *stated = strchr(text, '=');
    if (stated != NULL) *stated++ = '\0';
    facts = json_object_get(regions, text);
    if (facts == NULL && stated == NULL)
        return failure(err, ERROR_INVALID,
                       "--region %.70s: the set has no such region. A new one: %.70s=AE/AZ,ADGM (its place, and its regimes)",
                       text, text);
    if (facts != NULL && stated != NULL)
        return failure(err, ERROR_INVALID, "--region: the set has %.70s already, and its facts stay: give the name alone", text);
    if (facts == NULL) {
        TRY(region_of(stated, &facts, err));
        if (json_object_set_new(regions, text, facts) != 0) return policy_no_memory(err);
    }
    *facts_out = facts;
    return SUCCESS;
}

/* ---- networks and groups ---- */

static bool has_network(const json_t *networks, const char *cidr)
{
    for (size_t i = 0; i < json_array_size(networks); i++) {
        const char *other = json_text_of(json_array_get(networks, i), "cidr");
        if (other != NULL && strcmp(other, cidr) == 0) return true;
    }
    return false;
}

/* Clients there are where the region is, by the statement of whoever signs the set: assurance 2. */
static struct result add_networks(json_t *networks, const struct template_answers *answers, const json_t *region,
                                  struct error *err)
{
    const unsigned lacks = json_lacks();

    for (size_t i = 0; i < answers->network_count; i++) {
        if (has_network(networks, answers->networks[i])) continue;
        OWNED_JSON facts = json_pack("{s:i, s:s}", "assurance", 2, "recipient", "same-controller");
        json_t *geo = json_object_get(region, "geo"), *regimes = json_object_get(region, "regimes");
        if (facts == NULL || (geo != NULL && json_object_set(facts, "geo", geo) != 0) ||
            (regimes != NULL && json_object_set(facts, "regimes", regimes) != 0))
            return policy_no_memory(err);
        json_t *network = json_pack("{s:s, s:O}", "cidr", answers->networks[i], "facts", facts);
        if (network == NULL || json_array_append_new(networks, network) != 0) return no_text(lacks, "--network", err);
    }
    return SUCCESS;
}

static struct result add_groups(json_t *groups, const json_t *wanted, struct error *err)
{
    const char *name = NULL;
    json_t *group = NULL;

    json_object_foreach ((json_t *)(uintptr_t)wanted, name, group) {
        if (json_object_get(groups, name) == NULL && json_object_set(groups, name, group) != 0) return policy_no_memory(err);
    }
    return SUCCESS;
}

/* ---- the set ---- */

static struct result add_policy(json_t *policies, json_t *policy, struct error *err)
{
    const char *id = json_text_of(json_object_get(policy, "metadata"), "id");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const char *other = json_text_of(json_object_get(json_array_get(policies, i), "metadata"), "id");
        if (other != NULL && strcmp(other, id) == 0)
            return failure(err, ERROR_CONFLICT,
                           "the set has a policy %.64s already: change that one, with 'sijil policy show --document'", id);
    }
    return json_array_append(policies, policy) == 0 ? SUCCESS : policy_no_memory(err);
}

/* A copy of a part of the set in force; an empty one, if there is no set. */
static json_t *part_of(const json_t *before, const char *name, json_t *(*empty)(void))
{
    const json_t *part = json_object_get(before, name);

    return part == NULL ? empty() : json_deep_copy(part);
}

static struct result add_all(const struct template_answers *answers, const json_t *whole, const struct policy_set_parts *parts,
                             struct error *err)
{
    const json_t *region = NULL;
    json_t *policy = json_object_get(whole, "policy");

    TRY(fill_policy(policy, answers, err));
    TRY(add_policy(parts->policies, policy, err));
    TRY(add_region(parts->regions, answers->region, &region, err));
    TRY(add_networks(parts->networks, answers, region, err));
    return add_groups(parts->groups, json_object_get(whole, "groups"), err);
}

static struct result compose(const struct policy_set_parts *parts, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON set = NULL;

    TRY(policy_set_compose(parts, &text, err));
    TRY(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &set, err));
    TRY(places_check_document(set, err));
    return buffer_add(payload, text.data, text.length, err);
}

struct result policy_template_set(const struct template_answers *answers, const json_t *before, struct buffer *payload,
                                  struct error *err)
{
    const unsigned lacks = json_lacks();
    OWNED_JSON whole = NULL;
    OWNED_JSON policies = part_of(before, "policies", json_array);
    OWNED_JSON regions = part_of(before, "regions", json_object);
    OWNED_JSON groups = part_of(before, "groups", json_object);
    OWNED_JSON networks = part_of(before, "networks", json_array);
    int64_t epoch = 0;

    TRY(policy_template_read(answers->regime, &whole, err));
    (void)json_integer_of(before, "epoch", &epoch);
    const struct policy_set_parts parts = {.epoch = (uint64_t)epoch + 1,
                                           .policies = policies,
                                           .regions = regions,
                                           .groups = groups,
                                           .networks = networks,
                                           .exceptions = json_object_get(before, "exceptions"),
                                           .declassified = json_object_get(before, "declassified")};
    if (policies == NULL || regions == NULL || groups == NULL || networks == NULL || json_lacks() != lacks)
        return policy_no_memory(err);
    TRY(add_all(answers, whole, &parts, err));
    return json_lacks() == lacks ? compose(&parts, payload, err) : policy_no_memory(err);
}
