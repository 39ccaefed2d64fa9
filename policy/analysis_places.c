/* Operations that the sets do not tell apart; regions and networks whose facts differ between two sets. */
#include <string.h>

#include "policy/analysis_priv.h"

#define UNKNOWN_CLIENT "client" /* as policy/decider/decide_policies.c calls a client outside of all networks */

static bool differ(uint32_t operations, unsigned a, unsigned b)
{
    return (operations >> a & 1) != (operations >> b & 1);
}

static bool set_differs(const struct policy_set *set, unsigned a, unsigned b)
{
    for (size_t i = 0; i < set->documents->count; i++)
        for (size_t j = 0; j < set->documents->documents[i]->rule_count; j++)
            if (differ(set->documents->documents[i]->rules[j].operations, a, b)) return true;
    for (size_t i = 0; i < set->exception_count; i++)
        if (differ(set->exceptions[i]->operations, a, b)) return true;
    return false;
}

static bool are_alike(const struct analysis *analysis, unsigned a, unsigned b)
{
    if (differ(OP_OF_CLIENTS, a, b)) return false;
    for (size_t s = 0; s < analysis->set_count; s++)
        if (set_differs(analysis->sets[s], a, b)) return false;
    return true;
}

void analysis_find_operations(struct analysis *analysis)
{
    uint32_t *groups = analysis->groups;

    for (unsigned op = 0; op < OP_COUNT; op++) {
        size_t group = 0;
        while (group < analysis->group_count && !are_alike(analysis, (unsigned)__builtin_ctz(groups[group]), op)) group++;
        if (group == analysis->group_count) groups[analysis->group_count++] = 0;
        groups[group] |= 1U << op;
    }
}

/* --- places --- */

struct finding {
    struct analysis *analysis;
    struct changed_place *places;
    size_t count, room;
};

static bool is_known(const struct finding *finding, const struct changed_place *place)
{
    for (size_t i = 0; i < finding->count; i++) {
        const struct changed_place *other = &finding->places[i];
        if (other->operations == place->operations && other->targets[0] == place->targets[0] &&
            other->targets[1] == place->targets[1] && strcmp(other->ids[0], place->ids[0]) == 0 &&
            strcmp(other->ids[1], place->ids[1]) == 0)
            return true;
    }
    return false;
}

/* Exceptions name a target by its id, so another id of the same facts counts if an exception names one of both. */
static bool is_same(const struct finding *finding, const struct changed_place *place)
{
    const struct text_set *named = &finding->analysis->targets;

    if (strcmp(place->targets[0]->canonical, place->targets[1]->canonical) != 0) return false;
    return strcmp(place->ids[0], place->ids[1]) == 0 ||
           (!text_set_has(named, place->ids[0]) && !text_set_has(named, place->ids[1]));
}

static void add(struct finding *finding, const struct changed_place *place)
{
    if (is_same(finding, place) || is_known(finding, place)) return;
    if (finding->count == finding->room) finding->analysis->doubt = "too many regions and networks have other facts";
    else finding->places[finding->count++] = *place;
    (void)analysis_spend(finding->analysis, finding->count);
}

static void add_named(struct finding *finding, const char *id, uint32_t operations, int64_t now_us)
{
    struct changed_place place = {.id = id, .ids = {id, id}, .operations = operations};

    for (size_t s = 0; s < 2; s++) {
        place.targets[s] = policy_set_region(finding->analysis->sets[s], id, now_us);
        if (place.targets[s] == NULL) place.targets[s] = policy_set_unknown(finding->analysis->sets[s]);
    }
    add(finding, &place);
}

/* And an attested runner in the region. */
static void add_region_at(struct finding *finding, const char *id, int64_t now_us)
{
    const struct set_region *region = set_region(finding->analysis->sets[0], id);

    if (region == NULL) region = set_region(finding->analysis->sets[1], id);
    add_named(finding, id, ~(uint32_t)OP_OF_CLIENTS, now_us);
    if (region != NULL) add_named(finding, region->attested_id, OP_TRAIN, now_us);
}

/* Facts change once, when an attested attribute expires: a later end in the new set is a difference from the earlier end on. */
static void add_region(struct finding *finding, const char *id)
{
    const int64_t now_us = finding->analysis->moment_count == 0 ? INT64_MIN : finding->analysis->moments[0];

    add_region_at(finding, id, now_us);
    for (size_t s = 0; s < 2; s++) {
        const struct set_region *region = set_region(finding->analysis->sets[s], id);
        if (region != NULL && region->lapses_us != INT64_MAX && region->lapses_us > now_us)
            add_region_at(finding, id, region->lapses_us);
    }
}

static const struct set_network *network_of(const struct policy_set *set, const struct network *address)
{
    for (size_t i = 0; i < set->network_count; i++)
        if (network_holds(&set->networks[i].block, address)) return &set->networks[i];
    return NULL;
}

static void add_address(struct finding *finding, const struct network *address)
{
    struct changed_place place = {.operations = OP_OF_CLIENTS};

    for (size_t s = 0; s < 2; s++) {
        const struct set_network *network = network_of(finding->analysis->sets[s], address);
        place.targets[s] = network == NULL ? policy_set_unknown(finding->analysis->sets[s]) : network->target;
        place.ids[s] = network == NULL ? UNKNOWN_CLIENT : network->cidr;
        if (network != NULL && (place.id == NULL || strlen(network->cidr) > 0)) place.id = network->cidr;
        (void)analysis_spend(finding->analysis, finding->analysis->sets[s]->network_count + 1);
    }
    if (place.id != NULL) add(finding, &place);
}

/* The first address behind a network. False: there is none. */
static bool address_behind(const struct network *network, struct network *behind)
{
    *behind = *network;
    behind->bits = 128;
    for (unsigned bit = network->bits; bit-- > 0;) {
        uint8_t *byte = &behind->address[bit / 8];
        *byte ^= (uint8_t)(0x80U >> bit % 8);
        if ((*byte & 0x80U >> bit % 8) != 0) return true; /* no carry */
    }
    return false;
}

/* Between two of these addresses the network of an address does not change. */
static void add_edges(struct finding *finding, const struct set_network *network)
{
    struct network edge = network->block;

    edge.bits = 128;
    add_address(finding, &edge);
    if (address_behind(&network->block, &edge)) add_address(finding, &edge);
}

struct changed_place *analysis_places(struct analysis *analysis, size_t *count_out)
{
    struct finding finding = {.analysis = analysis};

    for (size_t s = 0; s < 2; s++) finding.room += 6 * analysis->sets[s]->region_count + 2 * analysis->sets[s]->network_count;
    finding.places = arena_take(analysis->arena, (finding.room + 1) * sizeof *finding.places);
    *count_out = 0;
    if (finding.places == NULL) {
        analysis->is_lost = true;
        return NULL;
    }
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < analysis->sets[s]->region_count; i++) add_region(&finding, analysis->sets[s]->regions[i].id);
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < analysis->sets[s]->network_count && analysis->steps > 0; i++)
            add_edges(&finding, &analysis->sets[s]->networks[i]);
    /* Which of several places counts for a client depends on all of them. Nobody knows which clients have which. */
    if (analysis->doubt == NULL && set_places_differ(analysis->sets[0], analysis->sets[1]))
        analysis->doubt = "the sets differ in networks, and one of them has places of authorities or listeners";
    *count_out = finding.count;
    return finding.places;
}
