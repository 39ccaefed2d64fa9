/* The regions of a set: their facts, until when these are attested, and which store each is. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "policy/no_memory_priv.h"
#include "policy/set_priv.h"

#define DAY_US             ((int64_t)86400 * 1000000)
#define ASSURANCE_ATTESTED 4

static int compare_regions(const void *a, const void *b)
{
    const struct set_region *left = a, *right = b;

    return strcmp(left->id, right->id);
}

static bool lists(const json_t *texts, const char *text)
{
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (strcmp(json_string_value(json_array_get(texts, i)), text) == 0) return true;
    return false;
}

/* An attribute is good through its day, in UTC. */
static struct result read_end(struct set_region *region, const json_t *attrs, const char *name, const json_t *attested,
                              struct error *err)
{
    int64_t day = 0;

    if (!lists(attrs, name))
        return failure(err, ERROR_INVALID, "regions.%.63s.attested: %.60s is not one of its attrs", region->id, name);
    (void)day_parse(bytes_of_text(json_text_of(attested, "until")), &day); /* the shape has checked it */
    if ((day + 1) * DAY_US < region->lapses_us) region->lapses_us = (day + 1) * DAY_US;
    return SUCCESS;
}

static struct result read_ends(struct set_region *region, const json_t *record, struct error *err)
{
    const char *name = NULL;
    json_t *each = NULL;

    region->lapses_us = INT64_MAX;
    json_object_foreach (json_object_get(record, "attested"), name, each)
        TRY(read_end(region, json_object_get(record, "attrs"), name, each, err));
    return SUCCESS;
}

/* The facts alone: a decision is about them, and neither the store nor evidence is one. */
static struct result compile_facts(json_t *record, const char *without, bool is_attested, struct policy_target **target_out,
                                   struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON facts = json_copy(record); /* a shallow copy */

    if (facts == NULL || json_lacks() != before) return policy_no_memory(err);
    (void)json_object_del(facts, "store");
    (void)json_object_del(facts, "attested");
    (void)json_object_del(facts, "keyd");
    if (without != NULL) (void)json_object_del(facts, without);
    if (is_attested && json_object_set_new(facts, "assurance", json_integer(ASSURANCE_ATTESTED)) != 0)
        return policy_no_memory(err);
    return policy_target_new(facts, target_out, err);
}

static struct result name_attested(struct arena *arena, struct set_region *region, struct error *err)
{
    char name[POLICY_ATTESTED_SIZE];

    (void)snprintf(name, sizeof name, POLICY_ATTESTED_MARK "%s", region->id);
    region->attested_id = arena_copy_text(arena, bytes_of_text(name));
    return region->attested_id == NULL ? policy_no_memory(err) : SUCCESS;
}

static struct result compile_region(struct arena *arena, struct set_region *region, json_t *record, struct error *err)
{
    region->record = record;
    TRY(name_attested(arena, region, err));
    TRY(compile_facts(record, NULL, false, &region->target, err));
    TRY(compile_facts(record, NULL, true, &region->attested, err));
    TRY(read_ends(region, record, err));
    if (region->lapses_us == INT64_MAX) return SUCCESS;
    TRY(compile_facts(record, "attrs", false, &region->lapsed, err));
    return compile_facts(record, "attrs", true, &region->attested_lapsed, err);
}

struct result set_compile_regions(struct policy_set *set, json_t *object, struct error *err)
{
    const char *id;
    json_t *record;

    set->regions = memory_zeroed(json_object_size(object) + 1, sizeof *set->regions);
    if (set->regions == NULL) return policy_no_memory(err);
    json_object_foreach (object, id, record) {
        set->regions[set->region_count].id = id;
        TRY(compile_region(set->arena, &set->regions[set->region_count++], record, err));
    }
    qsort(set->regions, set->region_count, sizeof *set->regions, compare_regions);
    return SUCCESS;
}

void set_free_regions(struct policy_set *set)
{
    for (size_t i = 0; i < set->region_count; i++) {
        policy_target_free(set->regions[i].target);
        policy_target_free(set->regions[i].lapsed);
        policy_target_free(set->regions[i].attested);
        policy_target_free(set->regions[i].attested_lapsed);
    }
    free(set->regions);
}

const struct set_region *set_region(const struct policy_set *set, const char *region)
{
    const struct set_region key = {.id = region};

    return bsearch(&key, set->regions, set->region_count, sizeof *set->regions, compare_regions);
}

const struct policy_target *set_region_facts(const struct set_region *region, int64_t now_us)
{
    return now_us < region->lapses_us ? region->target : region->lapsed;
}

const struct policy_target *policy_set_region(const struct policy_set *set, const char *region, int64_t now_us)
{
    static const size_t mark = sizeof POLICY_ATTESTED_MARK - 1;
    const bool is_attested = strncmp(region, POLICY_ATTESTED_MARK, mark) == 0;
    const struct set_region *found = set_region(set, is_attested ? region + mark : region);

    if (found == NULL) return NULL;
    if (is_attested) return now_us < found->lapses_us ? found->attested : found->attested_lapsed;
    return set_region_facts(found, now_us);
}

const json_t *policy_set_region_record(const struct policy_set *set, const char *region)
{
    const struct set_region *found = set_region(set, region);

    return found == NULL ? NULL : found->record;
}

const json_t *policy_set_region_store(const struct policy_set *set, const char *region)
{
    const struct set_region *found = set_region(set, region);

    return found == NULL ? NULL : json_object_get(found->record, "store");
}

const char *policy_set_region_keyd(const struct policy_set *set, const char *region)
{
    const struct set_region *found = set_region(set, region);

    return found == NULL ? NULL : json_text_of(found->record, "keyd");
}

const json_t *policy_set_region_key(const struct policy_set *set, const char *region)
{
    const struct set_region *found = set_region(set, region);

    return found == NULL ? NULL : json_object_get(found->record, "key");
}

int64_t policy_set_attested_until(const struct policy_set *set)
{
    int64_t first_us = INT64_MAX;

    for (size_t i = 0; i < set->region_count; i++)
        if (set->regions[i].lapses_us < first_us) first_us = set->regions[i].lapses_us;
    return first_us == INT64_MAX ? 0 : first_us;
}

size_t policy_set_region_count(const struct policy_set *set)
{
    return set->region_count;
}

const char *policy_set_region_name(const struct policy_set *set, size_t index)
{
    return set->regions[index].id;
}
