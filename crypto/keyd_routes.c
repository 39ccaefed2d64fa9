/* Which sijil-keyd has the keys of a region. */
#include "crypto/keyd_region.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/dsse.h"
#include "crypto/keyd_client_priv.h"
#include "crypto/random.h"

/* Routes are only added, so a found one stays. */
static struct keyd_route *any_route_of(struct keyd_client *client, const char *region)
{
    struct keyd_routes *routes = keyd_client_routes(client);
    const size_t count = atomic_load(&routes->count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(routes->each[i].region, region) == 0) return &routes->each[i];
    return NULL;
}

static struct keyd_route *route_of(struct keyd_client *client, const char *region)
{
    struct keyd_route *route = any_route_of(client, region);

    return route == NULL || atomic_load(&route->is_dropped) ? NULL : route;
}

struct result keyd_client_of(struct keyd_client *client, const char *region, struct keyd_client **found_out, struct error *err)
{
    struct keyd_route *route = route_of(client, region);
    char why[sizeof route->why] = "";

    if (route == NULL) {
        *found_out = client;
        return SUCCESS;
    }
    if (!atomic_load(&route->is_open)) {
        (void)pthread_mutex_lock(&keyd_client_routes(client)->lock);
        (void)snprintf(why, sizeof why, "%s", route->why);
        (void)pthread_mutex_unlock(&keyd_client_routes(client)->lock);
        return failure(err, ERROR_UNAVAILABLE, "the keys of region %.63s can't be had: %.150s", region, why);
    }
    *found_out = route->client;
    return SUCCESS;
}

/* Also if its socket can't be used: then the region is closed for good, and the main one is not asked for its keys. */
static struct result add_route(struct keyd_client *client, const char *region, const char *socket_path, struct error *err)
{
    struct keyd_routes *routes = keyd_client_routes(client);
    const size_t count = atomic_load(&routes->count);
    struct error why = {.message = "this gateway has no region_keyd_folder"};

    if (count == KEYD_REGIONS_MAX) return failure(err, ERROR_LIMIT, "at most %d regions have a sijil-keyd", KEYD_REGIONS_MAX);
    struct keyd_route *route = &routes->each[count];
    if (!text_copy(route->region, sizeof route->region, region))
        return failure(err, ERROR_INVALID, "the name of a region is too long");
    if (socket_path[0] == '\0' || !keyd_client_like(client, socket_path, &route->client, &why).ok)
        (void)snprintf(route->lacks, sizeof route->lacks, "%.159s", why.message);
    (void)snprintf(route->why, sizeof route->why, "%s", route->client == NULL ? route->lacks : "it was not asked yet");
    atomic_store(&routes->count, count + 1);
    return SUCCESS;
}

struct result keyd_region_use(struct keyd_client *client, const char *region, const char *socket_path, struct error *err)
{
    struct keyd_routes *routes = keyd_client_routes(client);

    if (route_of(client, region) != NULL) return SUCCESS;
    (void)pthread_mutex_lock(&routes->lock);
    struct keyd_route *dropped = any_route_of(client, region);
    const struct result added = dropped != NULL ? SUCCESS : add_route(client, region, socket_path, err);
    if (dropped != NULL) atomic_store(&dropped->is_dropped, false);
    (void)pthread_mutex_unlock(&routes->lock);
    return added;
}

bool keyd_region_drop(struct keyd_client *client, const char *region)
{
    struct keyd_route *route = route_of(client, region);

    if (route == NULL) return false;
    atomic_store(&route->is_open, false);
    atomic_store(&route->is_dropped, true);
    return true;
}

void keyd_region_open(struct keyd_client *client, const char *region)
{
    struct keyd_route *route = route_of(client, region);

    assert(route != NULL && route->client != NULL);
    atomic_store(&route->is_open, true);
}

void keyd_region_close(struct keyd_client *client, const char *region, const char *why)
{
    struct keyd_route *route = route_of(client, region);

    assert(route != NULL);
    (void)pthread_mutex_lock(&keyd_client_routes(client)->lock);
    (void)snprintf(route->why, sizeof route->why, "%s", why);
    (void)pthread_mutex_unlock(&keyd_client_routes(client)->lock);
    atomic_store(&route->is_open, false);
}

/* Also while it is closed. */
static struct result client_at(struct keyd_client *client, const char *region, struct keyd_client **found_out, struct error *err)
{
    const struct keyd_route *route = route_of(client, region);

    if (route == NULL) return failure(err, ERROR_NOT_FOUND, "region %.63s has no sijil-keyd of its own", region);
    if (route->client == NULL) return failure(err, ERROR_UNAVAILABLE, "%s", route->lacks);
    *found_out = route->client;
    return SUCCESS;
}

static struct result check_place(const struct keyd_reply *reply, const struct keyd_request *asked, const char *region,
                                 struct keyd_place *place_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    OWNED(dsse) *dsse = NULL;
    struct keyd_place place;

    TRY(dsse_read(reply->as.place.envelope, KEYD_ENVELOPE_MAX, &dsse, err));
    TRY(ecdsa_key_from_public(reply->as.place.key, &key, err));
    TRY(dsse_check_signer(dsse, key, err));
    TRY(keyd_place_read(buffer_bytes(&dsse->payload), &place, err));
    if (strcmp(dsse->payload_type, KEYD_PLACE_TYPE) != 0 || memcmp(place.nonce, asked->as.nonce, sizeof place.nonce) != 0)
        return failure(err, ERROR_DENIED, "it answers with a statement that was made for another question");
    if (strcmp(place.region, region) != 0)
        return failure(err, ERROR_DENIED, "the sijil-keyd there is of region %.63s", place.region);
    *place_out = place;
    return SUCCESS;
}

struct result keyd_ask_place(struct keyd_client *client, const char *region, struct keyd_place *place_out,
                             char key_out[ECDSA_THUMBPRINT_SIZE], struct error *err)
{
    struct keyd_request request = {.type = KEYD_PLACE};
    struct keyd_client *there = NULL;
    struct error why = {0};
    OWNED_CALL call = {0};

    TRY(client_at(client, region, &there, err));
    random_bytes(request.as.nonce, sizeof request.as.nonce);
    TRY(keyd_call(there, &request, &call, err));
    if (!check_place(&call.reply, &request, region, place_out, &why).ok)
        return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_DENIED, "%s", why.message);
    ecdsa_thumbprint(call.reply.as.place.key, key_out);
    return SUCCESS;
}

struct result keyd_region_hand(struct keyd_client *client, const char *region, struct bytes envelope,
                               struct document_pin *pin_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_TAKE_CURRENT, .as.current = envelope};
    struct keyd_client *there = NULL;
    OWNED_CALL call = {0};

    TRY(client_at(client, region, &there, err));
    TRY(keyd_call(there, &request, &call, err));
    *pin_out = call.reply.as.pin;
    return SUCCESS;
}

struct result keyd_region_versions_unused(struct keyd_client *client, const char *region, uint32_t version, struct error *err)
{
    struct keyd_client *there = NULL;

    TRY(client_at(client, region, &there, err));
    return keyd_versions_unused(there, version, err);
}

struct result keyd_ask_current(struct keyd_client *client, struct buffer *envelope, struct error *err)
{
    struct keyd_request request = {.type = KEYD_CURRENT};
    OWNED_CALL call = {0};

    TRY(keyd_call(client, &request, &call, err));
    return buffer_add(envelope, call.reply.as.envelope.data, call.reply.as.envelope.length, err);
}
