/* The runner's side: a key that lives as long as one talk, and never leaves this process. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "runner/talk/talk_priv.h"

#define LIFE_S (90 * 24 * 3600) /* nobody reads it: the agent compares the key alone */

struct talk_door {
    int fd;
    unsigned port;
    SSL_CTX *context;
    char pin[TALK_PIN_SIZE];
};

static bool fill_certificate(X509 *certificate, EVP_PKEY *key)
{
    X509_NAME *name = X509_get_subject_name(certificate);

    return X509_set_version(certificate, X509_VERSION_3) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), LIFE_S) != NULL &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"sijil-runner", -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

static struct result make_key(struct talk_door *door, struct error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    const bool is_made = key != NULL && certificate != NULL && fill_certificate(certificate, key) &&
                         talk_pin(certificate, door->pin) && SSL_CTX_use_certificate(door->context, certificate) == 1 &&
                         SSL_CTX_use_PrivateKey(door->context, key) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    return is_made ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no key for a talk");
}

static bool fill_address(struct sockaddr_storage *address, socklen_t *size, const char *text, unsigned port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET, v4->sin_port = htons((in_port_t)port), *size = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6, v6->sin6_port = htons((in_port_t)port), *size = sizeof *v6;
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

/* False: somebody else listens there. */
static bool listens(struct talk_door *door, const struct sockaddr_storage *address, socklen_t size)
{
    const int on = 1;
    OWNED_FD fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)address, size) != 0 || listen(fd, 8) != 0) return false;
    door->fd = fd;
    fd = -1;
    return true;
}

static struct result find_port(struct talk_door *door, const char *text, unsigned port, unsigned ports, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    for (unsigned i = 0; i < ports; i++) {
        if (!fill_address(&address, &size, text, port + i))
            return failure(err, ERROR_INVALID, "agents connect to an IP address, not to %.100s", text);
        door->port = port + i;
        if (listens(door, &address, size)) return SUCCESS;
        if (errno != EADDRINUSE)
            return failure(err, ERROR_UNAVAILABLE, "no talk at %.60s port %u: %s", text, port + i, strerror(errno));
    }
    return failure(err, ERROR_CONFLICT, "all of %u ports from %u on are in use at %.60s", ports, port, text);
}

struct result talk_door_open(const char *address, unsigned port, unsigned ports, struct talk_door **door_out, struct error *err)
{
    OWNED(talk_door) *door = memory_zeroed(1, sizeof *door);

    if (door == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    door->fd = -1;
    door->context = talk_context(true);
    if (door->context == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    TRY(make_key(door, err));
    TRY(find_port(door, address, port, ports, err));
    *door_out = GIVE(door);
    return SUCCESS;
}

unsigned talk_door_port(const struct talk_door *door)
{
    return door->port;
}

const char *talk_door_pin(const struct talk_door *door)
{
    return door->pin;
}

struct result talk_accept(struct talk_door *door, int64_t patience_ms, struct talk **talk_out, struct error *err)
{
    struct pollfd polled = {.fd = door->fd, .events = POLLIN};

    if (poll(&polled, 1, (int)patience_ms) <= 0) return failure(err, ERROR_NOT_FOUND, "nobody came");
    const int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return failure(err, ERROR_NOT_FOUND, "whoever came has gone: %s", strerror(errno));
    return talk_begin(fd, door->context, true, talk_out, err);
}

void talk_door_free(struct talk_door *door)
{
    if (door == NULL) return;
    file_close_owned(&door->fd);
    SSL_CTX_free(door->context);
    free(door);
}
