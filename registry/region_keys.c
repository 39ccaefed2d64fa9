/* Asks the sijil-keyd of regions who and where they are, and gives them what the main one says. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/decider/decider.h"
#include "policy/set.h"
#include "registry/maintenance.h"
#include "registry/region_scan_priv.h"
#include "registry/registry_priv.h"

/* One look at the keys of a region. */
struct asking {
    struct registry *registry;
    struct decider *decider;
    struct region_state state;
    bool is_known;  /* the database has the region */
    bool is_wanted; /* a person asks */
    struct region_record record;
    struct region_keys keys;
};

__attribute__((format(printf, 3, 4))) static void find(struct asking *asking, bool is_grave, const char *format, ...)
{
    va_list arguments;

    if (asking->keys.problem[0] != '\0' && (asking->keys.is_grave || !is_grave)) return;
    va_start(arguments, format);
    (void)vsnprintf(asking->keys.problem, sizeof asking->keys.problem, format, arguments);
    va_end(arguments);
    asking->keys.is_grave = is_grave;
}

/* ---- What was found ---- */

/* What contradicts the record newly has the region compared at once. */
static void publish(struct registry *registry, const struct region_keys *keys)
{
    bool was_grave = false;
    size_t i = 0;

    (void)pthread_mutex_lock(&registry->problem_lock);
    while (i < registry->key_count && strcmp(registry->key_places[i].id, keys->id) != 0) i++;
    if (i < REGISTRY_REGIONS_MAX) {
        was_grave = i < registry->key_count && registry->key_places[i].is_grave;
        registry->key_places[i] = *keys;
        if (i == registry->key_count) registry->key_count++;
    }
    (void)pthread_mutex_unlock(&registry->problem_lock);
    for (size_t at = 0; at < registry->region_count && keys->is_grave && !was_grave; at++)
        if (strcmp(registry->regions[at].id, keys->id) == 0) atomic_store(&registry->regions[at].wants_look, true);
}

/* ---- Asking ---- */

/* The statement of the main one; without it, or if it is refused, the region's own says by itself that it is not current. */
static void hand_statement(struct asking *asking)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(KEYD_STATEMENT_MAX);
    struct keyd_client *keyd = asking->registry->keyd;
    struct document_pin pin;
    struct error why = {0};

    if (!keyd_ask_current(keyd, &envelope, &why).ok)
        find(asking, false, "the main sijil-keyd does not say which policy set is in force: %.150s", why.message);
    else if (!keyd_region_hand(keyd, asking->keys.id, buffer_bytes(&envelope), &pin, &why).ok)
        find(asking, false, "its sijil-keyd refuses which policy set is in force: %.150s", why.message);
}

static void demand(struct asking *asking, const char *what, const char *stated, const char *found)
{
    if (stated == NULL || strcmp(stated, found) == 0) return;
    find(asking, true, "the record says that the %s of its keys is %.60s, and its sijil-keyd says %.60s", what, stated,
         found[0] == '\0' ? "nothing" : found);
}

/* A sijil-keyd that is not the one of the record gets no key, and nothing else follows: this gateway may have the wrong socket. */
static void compare(struct asking *asking)
{
    const struct keyd_place *place = &asking->keys.place;
    const struct region_record *record = &asking->record;

    demand(asking, "ring", record->key_ring, place->ring);
    demand(asking, "place", record->key_geo, place->geo);
    demand(asking, "control", record->key_control, place->control);
    if (!place->is_current) find(asking, false, "its sijil-keyd was not told lately which policy set is in force");
}

static void ask(struct asking *asking)
{
    struct keyd_client *keyd = asking->registry->keyd;
    char key[ECDSA_THUMBPRINT_SIZE];
    struct error why = {0};

    hand_statement(asking);
    if (!keyd_ask_place(keyd, asking->keys.id, &asking->keys.place, key, &why).ok) {
        asking->keys.problem[0] = '\0'; /* that it can't be reached is the reason of the first one */
        find(asking, false, "its sijil-keyd does not say where it is: %.180s", why.message);
        return;
    }
    asking->keys.is_reached = true;
    asking->keys.is_open = strcmp(key, asking->keys.key) == 0;
    if (asking->keys.is_open) compare(asking);
    else
        find(asking, false, "the sijil-keyd at this gateway's socket has the key %.43s, and the region's has %.43s", key,
             asking->keys.key);
}

/* ---- Consequences ---- */

/* The record may name another one later, or none: what is there opens with the first alone. */
static void check_record(struct asking *asking)
{
    const char *named = asking->record.keyd, *known = asking->state.keyd;

    if (named == NULL) find(asking, true, "the record names no sijil-keyd any more, and its keys are with %.43s", known);
    else if (known[0] != '\0' && strcmp(named, known) != 0)
        find(asking, true, "the record names the sijil-keyd %.43s, and its keys are with %.43s", named, known);
}

/* Each try is recorded in the log, so what failed is tried again when a person asks, or after the quarantine. Another gateway may have been first a moment
 * ago: only the second failure says that the region has keys. */
static struct result try_to_begin(struct asking *asking, struct error *err)
{
    static const char has_keys[] = "the region has keys under the main sijil-keyd: only an empty region gets one of its own";
    struct region_keys before;
    struct region_step step;

    const bool again = registry_region_keys(asking->registry, asking->keys.id, &before) && strcmp(before.problem, has_keys) == 0;
    if (asking->state.why[0] != '\0' && !asking->is_wanted) {
        const bool is_for_that = strstr(asking->state.why, has_keys) != NULL;
        find(asking, is_for_that, "%s", is_for_that ? has_keys : "the region is quarantined before its first key");
        return SUCCESS;
    }
    region_step_prepare(ACTION_REGION_KEYD, &step);
    step.text = asking->keys.key;
    TRY(region_record_step(asking->registry, asking->keys.id, &step, asking->keys.key, err));
    asking->keys.is_open = step.is_done;
    if (!step.is_done) find(asking, again, "%s", has_keys);
    return SUCCESS;
}

static struct result begin(struct asking *asking, struct error *err)
{
    if (!asking->keys.is_open || asking->keys.is_grave || asking->state.keyd[0] != '\0') return SUCCESS;
    asking->keys.is_open = false;
    if (asking->is_known) return try_to_begin(asking, err);
    find(asking, false, "the region is not opened yet");
    return SUCCESS;
}

static struct result conclude(struct asking *asking, struct error *err)
{
    const struct region_keys *keys = &asking->keys;
    const bool is_late = keys->is_open && !keys->place.is_current;

    /* One that is late stays open, and refuses by itself. */
    if (keys->is_open && !keys->is_grave) keyd_region_open(asking->registry->keyd, keys->id);
    else keyd_region_close(asking->registry->keyd, keys->id, keys->problem);
    TRY(decider_region_lacks(asking->decider, keys->id, is_late, err));
    publish(asking->registry, keys);
    return SUCCESS;
}

struct result registry_use_keyd(struct registry *registry, const char *region, struct error *err)
{
    const char *folder = registry->recorded.keyd_folder;
    char path[REGION_PATH_ROOM] = "";

    if (folder != NULL && folder[0] != '\0') TRY(region_path_below(folder, region, path, err));
    return keyd_region_use(registry->keyd, region, path, err);
}

static void unpublish(struct registry *registry, const char *region)
{
    (void)pthread_mutex_lock(&registry->problem_lock);
    for (size_t i = 0; i < registry->key_count; i++)
        if (strcmp(registry->key_places[i].id, region) == 0)
            registry->key_places[i] = registry->key_places[--registry->key_count];
    (void)pthread_mutex_unlock(&registry->problem_lock);
}

/* The region is retired, or its record named one before its first key and names none any more: then its keys are asked of the main one again. */
static struct result forget(struct asking *asking, struct error *err)
{
    unpublish(asking->registry, asking->keys.id);
    if (!asking->state.is_retired) (void)keyd_region_drop(asking->registry->keyd, asking->keys.id);
    return decider_region_lacks(asking->decider, asking->keys.id, false, err);
}

static struct result look(struct asking *asking, struct error *err)
{
    const char *known = asking->state.keyd, *named = asking->record.keyd;

    if (asking->state.is_retired || (named == NULL && known[0] == '\0')) return forget(asking, err);
    (void)text_copy(asking->keys.key, sizeof asking->keys.key, known[0] != '\0' ? known : named);
    TRY(registry_use_keyd(asking->registry, asking->keys.id, err));
    check_record(asking);
    if (!asking->keys.is_grave) ask(asking);
    TRY(begin(asking, err));
    return conclude(asking, err);
}

static struct result look_at(struct registry *registry, struct decider *decider, const struct policy_set *set, const char *region,
                             bool is_wanted, struct error *said)
{
    struct asking asking = {
        .registry = registry, .decider = decider, .record = region_record_of(set, region), .is_wanted = is_wanted};

    (void)text_copy(asking.keys.id, sizeof asking.keys.id, region);
    asking.is_known = decider_region_state(decider, region, &asking.state);
    TRY(look(&asking, said));
    if (asking.keys.problem[0] == '\0') return SUCCESS;
    return failure(said, ERROR_UNAVAILABLE, "region %.63s: %.180s", region, asking.keys.problem);
}

struct result registry_ask_keys(struct registry *registry, struct decider *decider, const char *region, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    struct region_keys keys = {.id = ""};
    struct error said = {0};

    const struct result looked = look_at(registry, decider, set, region, true, &said);
    policy_set_free(set);
    if (looked.ok || (registry_region_keys(registry, region, &keys) && keys.problem[0] != '\0')) return SUCCESS;
    return failure(err, said.kind, "%s", said.message);
}

/* Of a region that other gateways serve: if it has a sijil-keyd of its own, its keys are asked of no other one here. */
static struct result close_elsewhere(struct registry *registry, struct decider *decider, const struct policy_set *set,
                                     const char *region, struct error *err)
{
    struct asking asking = {.registry = registry, .decider = decider, .record = region_record_of(set, region)};
    const char *known = asking.state.keyd, *named = asking.record.keyd;

    (void)decider_region_state(decider, region, &asking.state);
    if (asking.state.is_retired || (named == NULL && known[0] == '\0')) return SUCCESS;
    (void)text_copy(asking.keys.id, sizeof asking.keys.id, region);
    (void)text_copy(asking.keys.key, sizeof asking.keys.key, known[0] != '\0' ? known : named);
    TRY(registry_use_keyd(registry, region, err));
    find(&asking, false, "another gateway serves the region");
    publish(registry, &asking.keys);
    return SUCCESS;
}

/* Of the regions that this gateway serves. One that it is about to open is closed before (registry/region_open.c). */
struct result registry_follow_keys(struct registry *registry, struct decider *decider, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    struct result result = SUCCESS;
    struct error later = {0};

    for (size_t i = 0; i < registry->region_count; i++) {
        const struct result looked = look_at(registry, decider, set, registry->regions[i].id, false, result.ok ? err : &later);
        if (result.ok) result = looked;
    }
    for (size_t i = 0; i < registry->elsewhere.count; i++) {
        const char *region = registry->elsewhere.each[i].region;
        const struct result closed = close_elsewhere(registry, decider, set, region, result.ok ? err : &later);
        if (result.ok) result = closed;
    }
    policy_set_free(set);
    return result;
}
