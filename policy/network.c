/* What is known of a client: by its address (longest prefix first), by the authority of its certificate, and by the listener that it came to. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "policy/no_memory_priv.h"
#include "policy/set_priv.h"

/* Only the canonical form is valid, so a set can't have the same block under two names. */
static bool is_canonical(const struct set_network *network)
{
    char again[NETWORK_TEXT_SIZE];

    network_write(&network->block, again);
    return strcmp(again, network->cidr) == 0;
}

struct result set_network_parse(const char *cidr, struct set_network *network, struct error *err)
{
    const enum network_form form = network_read(bytes_of_text(cidr), &network->block);

    network->cidr = cidr;
    if (form == NETWORK_WITHOUT_PREFIX)
        return failure(err, ERROR_INVALID, "networks.cidr: an address and a prefix expected, such as 10.1.0.0/16");
    if (form == NETWORK_WITH_BITS_BEHIND)
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s has bits set behind its prefix", cidr);
    if (form == NETWORK_GOOD && strchr(cidr, ':') != NULL && network_is_ipv4(&network->block))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is IPv4 in disguise: write it as IPv4", cidr);
    if (form == NETWORK_MALFORMED || !is_canonical(network))
        return failure(err, ERROR_INVALID, "networks.cidr: %.60s is no block of addresses in its one spelling", cidr);
    return SUCCESS;
}

int compare_networks(const void *a, const void *b)
{
    const struct set_network *left = a, *right = b;

    if (left->block.bits != right->block.bits) return left->block.bits > right->block.bits ? -1 : 1;
    return strcmp(left->cidr, right->cidr);
}

static int compare_places(const void *a, const void *b)
{
    const struct set_network *left = a, *right = b;

    return strcmp(left->cidr, right->cidr);
}

/* ---- reading ---- */

/* How certain each of these is at most: a certificate was given to somebody there, a listener is reached from there. */
static const struct {
    const char *member;
    int64_t assurance_max;
} kinds[] = {{"authority", 3}, {"listener", 2}};
#define KINDS (sizeof kinds / sizeof kinds[0])

static struct result name_place(struct policy_set *set, const char *kind, const char *name, struct set_network *place,
                                struct error *err)
{
    char text[POLICY_PLACE_SIZE];

    const int length = snprintf(text, sizeof text, "%s:%s", kind, name);
    if (length < 0 || (size_t)length >= sizeof text)
        return failure(err, ERROR_INVALID, "networks.%s: the name is too long", kind);
    place->cidr = arena_copy_text(set->arena, bytes_of_text(text));
    return place->cidr == NULL ? policy_no_memory(err) : SUCCESS;
}

static struct result read_place(struct policy_set *set, const json_t *json, struct set_network *place, struct error *err)
{
    const char *cidr = json_text_of(json, "cidr");
    const json_t *facts = json_object_get(json, "facts");

    if (json_object_size(json) != 2)
        return failure(err, ERROR_INVALID, "networks: each has facts, and one of cidr, authority and listener");
    for (size_t i = 0; i < KINDS && cidr == NULL; i++) {
        const char *name = json_text_of(json, kinds[i].member);
        if (name == NULL) continue;
        if (json_integer_value(json_object_get(facts, "assurance")) > kinds[i].assurance_max)
            return failure(err, ERROR_INVALID, "networks.%s: an assurance of at most %d", kinds[i].member,
                           (int)kinds[i].assurance_max);
        TRY(name_place(set, kinds[i].member, name, place, err));
    }
    if (cidr != NULL) TRY(set_network_parse(cidr, place, err));
    return policy_target_new(facts, &place->target, err);
}

/* Networks are put in front, in their own order. */
static struct result read_places(struct policy_set *set, const json_t *array, bool of_addresses, struct error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *each = json_array_get(array, i);
        if ((json_object_get(each, "cidr") != NULL) != of_addresses) continue;
        TRY(read_place(set, each, &set->networks[set->place_count++], err));
    }
    return SUCCESS;
}

struct result set_compile_networks(struct policy_set *set, const json_t *array, struct error *err)
{
    set->networks = memory_zeroed(json_array_size(array) + 1, sizeof *set->networks);
    if (set->networks == NULL) return policy_no_memory(err);
    TRY(read_places(set, array, true, err));
    set->network_count = set->place_count;
    TRY(read_places(set, array, false, err));
    qsort(set->networks, set->network_count, sizeof *set->networks, compare_networks);
    qsort(set->networks + set->network_count, set->place_count - set->network_count, sizeof *set->networks, compare_places);
    for (size_t i = 1; i < set->place_count; i++)
        if (strcmp(set->networks[i - 1].cidr, set->networks[i].cidr) == 0)
            return failure(err, ERROR_INVALID, "networks: %.96s is there twice", set->networks[i].cidr);
    return SUCCESS;
}

/* ---- finding ---- */

const struct set_network *set_place(const struct policy_set *set, const char *name)
{
    for (size_t i = 0; i < set->place_count; i++)
        if (strcmp(set->networks[i].cidr, name) == 0) return &set->networks[i];
    return NULL;
}

bool set_places_differ(const struct policy_set *one, const struct policy_set *other)
{
    if (one->place_count == one->network_count && other->place_count == other->network_count) return false;
    if (one->place_count != other->place_count) return true;
    for (size_t i = 0; i < one->place_count; i++) /* both are sorted */
        if (strcmp(one->networks[i].cidr, other->networks[i].cidr) != 0 ||
            strcmp(one->networks[i].target->canonical, other->networks[i].target->canonical) != 0)
            return true;
    return false;
}

static const struct set_network *network_of(const struct policy_set *set, const struct sockaddr *address)
{
    struct network client;

    if (!network_of_socket(address, &client)) return NULL;
    for (size_t i = 0; i < set->network_count; i++)
        if (network_holds(&set->networks[i].block, &client)) return &set->networks[i];
    return NULL;
}

static const struct set_network *named(const struct policy_set *set, const char *kind, const char *name)
{
    char text[POLICY_PLACE_SIZE];

    if (name == NULL || name[0] == '\0' || set->place_count == set->network_count) return NULL;
    (void)snprintf(text, sizeof text, "%s:%s", kind, name);
    return set_place(set, text);
}

static int64_t assurance_of(const struct policy_target *target)
{
    const struct fact *fact = &target->facts[FACT_ASSURANCE];

    return fact->is_known ? fact->number : 0;
}

bool policy_set_places_authorities(const struct policy_set *set)
{
    for (size_t i = set->network_count; i < set->place_count; i++)
        if (strncmp(set->networks[i].cidr, "authority:", sizeof "authority:" - 1) == 0) return true;
    return false;
}

/* The less certain one; of equal ones the first. */
static const struct set_network *lower(const struct set_network *one, const struct set_network *other)
{
    if (one == NULL || other == NULL) return one == NULL ? other : one;
    return assurance_of(other->target) < assurance_of(one->target) ? other : one;
}

/* Which of several authorities a chain leads to is nobody's choice: an authority may stand under another one, or be renewed. */
static const struct set_network *authority_of(const struct policy_set *set, const char *names)
{
    const struct set_network *lowest = NULL;
    char name[POLICY_PLACE_SIZE];

    while (names != NULL && *names != '\0') {
        const size_t length = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, names);
        lowest = lower(lowest, named(set, "authority", name));
        names += length + strspn(names + length, " ");
    }
    return lowest;
}

static const struct set_network *place_of(const struct policy_set *set, const struct policy_client *client)
{
    const struct set_network *lowest = lower(network_of(set, client->address), named(set, "listener", client->listener));

    return lower(lowest, authority_of(set, client->authorities));
}

const struct policy_target *policy_set_client(const struct policy_set *set, const struct policy_client *client,
                                              const char **name_out)
{
    const struct set_network *lowest = place_of(set, client);

    if (lowest == NULL) return NULL;
    *name_out = lowest->cidr;
    return lowest->target;
}

/* ---- runners ---- */

/* "AE/DU" lies in "AE". */
static bool lies_in(const char *geo, const char *other)
{
    const size_t length = strlen(other);

    return strncmp(geo, other, length) == 0 && (geo[length] == '\0' || geo[length] == '/');
}

static bool is_elsewhere(const struct set_network *place, const struct policy_target *region)
{
    const char *geo = place->target->geo;

    if (geo == NULL) return false;
    return region->geo == NULL || (!lies_in(geo, region->geo) && !lies_in(region->geo, geo));
}

const struct policy_target *policy_set_runner(const struct policy_set *set, const char *region,
                                              const struct policy_client *client, int64_t now_us, const char **name_out)
{
    const struct set_region *found = set_region(set, region);
    const bool is_enrolled = client->runner == POLICY_RUNNER_NONE || client->runner == POLICY_RUNNER_ENROLLED;
    const struct set_network *place = is_enrolled ? NULL : place_of(set, client);

    *name_out = region;
    if (found == NULL) return NULL; /* nothing is less certain */
    const struct policy_target *facts = set_region_facts(found, now_us);
    if (client->runner == POLICY_RUNNER_ATTESTED && (place == NULL || !is_elsewhere(place, facts))) {
        *name_out = found->attested_id;
        return policy_set_region(set, found->attested_id, now_us);
    }
    if (place == NULL || assurance_of(place->target) >= assurance_of(facts)) return facts;
    *name_out = place->cidr;
    return place->target;
}

const struct policy_target *policy_set_runner_named(const struct policy_set *set, const char *name, int64_t now_us)
{
    const struct policy_target *region = policy_set_region(set, name, now_us);
    const struct set_network *place = region == NULL ? set_place(set, name) : NULL;

    return place == NULL ? region : place->target;
}
