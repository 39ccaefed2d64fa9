#include "outgoing/peers.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define SCHEME "https://"

/* As a section of a region has it: "provider/region". */
static bool is_region(const char *title)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t first = strspn(title, letters), second = title[first] == '/' ? strspn(title + first + 1, letters) : 0;

    return first > 0 && second > 0 && title[first + 1 + second] == '\0';
}

static bool is_url(const char *url)
{
    const size_t scheme = sizeof SCHEME - 1;

    return strncmp(url, SCHEME, scheme) == 0 && url[scheme] != '\0' &&
           text_consists_of(bytes_of_text(url + scheme), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]");
}

static struct result add(const char *setting, const char *entry, size_t length, struct peers *peers, struct error *err)
{
    const char *equals = memchr(entry, '=', length);
    const size_t name = equals == NULL ? length : (size_t)(equals - entry);
    const size_t url = equals == NULL ? 0 : length - name - 1;
    struct peer peer = {.region = ""};

    if (peers->count == PEERS_MAX) return failure(err, ERROR_LIMIT, "%s: at most %d regions", setting, PEERS_MAX);
    if (name > PEER_NAME_MAX || url >= sizeof peer.url)
        return failure(err, ERROR_INVALID, "%s = %.60s: a name or a URL is too long", setting, entry);
    memcpy(peer.region, entry, name);
    if (url > 0) memcpy(peer.url, equals + 1, url);
    if (!is_region(peer.region) || (equals != NULL && !is_url(peer.url)))
        return failure(err, ERROR_INVALID, "%s = %.*s: provider/region=https://host:port, with commas between several", setting,
                       length > 120 ? 120 : (int)length, entry);
    if (peers_find(peers, peer.region) != NULL) return failure(err, ERROR_INVALID, "%s names %s twice", setting, peer.region);
    peers->each[peers->count++] = peer;
    return SUCCESS;
}

struct result peers_parse(const char *setting, const char *text, struct peers *peers_out, struct error *err)
{
    struct peers peers = {.count = 0};

    for (const char *at = text + strspn(text, " "); *at != '\0';) {
        const size_t length = strcspn(at, ", ");
        TRY(add(setting, at, length, &peers, err));
        at += length;
        at += strspn(at, " ");
        if (*at != '\0' && *at != ',') return failure(err, ERROR_INVALID, "%s: a comma stands between two regions", setting);
        at += *at == ',';
        at += strspn(at, " ");
    }
    *peers_out = peers;
    return SUCCESS;
}

const struct peer *peers_find(const struct peers *peers, const char *region)
{
    for (size_t i = 0; i < peers->count; i++)
        if (strcmp(peers->each[i].region, region) == 0) return &peers->each[i];
    return NULL;
}

void peer_host(const struct peer *peer, char host_out[PEER_URL_SIZE])
{
    const char *host = peer->url[0] == '\0' ? "" : peer->url + sizeof SCHEME - 1;
    const size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

    (void)snprintf(host_out, PEER_URL_SIZE, "%.*s", (int)length, host);
}
