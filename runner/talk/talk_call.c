/* The agent's side. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/talk/talk_priv.h"

#define CONNECT_MS 10000

static bool fill(struct sockaddr_storage *address, socklen_t *size, const char *text, const char *port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    uint64_t number = 0;

    memset(address, 0, sizeof *address);
    if (!text_to_u64(bytes_of_text(port), 65535, &number) || number == 0) return false;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET, v4->sin_port = htons((in_port_t)number), *size = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6, v6->sin6_port = htons((in_port_t)number), *size = sizeof *v6;
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static struct result dial(const char *text, const char *port, int *fd_out, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t size = 0, length = sizeof(int);
    int failed = 0;

    if (!fill(&address, &size, text, port))
        return failure(err, ERROR_INVALID, "a runner is named by its IP address and its port, not by %.60s %.10s", text, port);
    OWNED_FD fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failure(err, ERROR_UNAVAILABLE, "no socket for the runner: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)
        return failure(err, ERROR_UNAVAILABLE, "the runner at %.60s %.10s: %s", text, port, strerror(errno));
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    if (poll(&polled, 1, CONNECT_MS) <= 0) failed = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) failed = errno;
    if (failed != 0) return failure(err, ERROR_UNAVAILABLE, "the runner at %.60s %.10s: %s", text, port, strerror(failed));
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

/* In the place of all that a certificate says: it is the right key. TLS itself shows that the other side has its private half. */
static int compare_key(X509_STORE_CTX *store, void *argument)
{
    char pin[TALK_PIN_SIZE];

    if (talk_pin(X509_STORE_CTX_get0_cert(store), pin) && strcmp(pin, argument) == 0) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

struct result talk_call(const char *address, const char *port, const char *pin, struct talk **talk_out, struct error *err)
{
    char wanted[TALK_PIN_SIZE];
    int fd = -1;

    if (strlen(pin) != TALK_PIN_SIZE - 1) return failure(err, ERROR_INVALID, "the pin of a runner has 64 hex digits");
    memcpy(wanted, pin, sizeof wanted);
    TRY(dial(address, port, &fd, err));
    SSL_CTX *context = talk_context(false);
    if (context == NULL) {
        (void)close(fd);
        return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(context, compare_key, wanted);
    const struct result begun = talk_begin(fd, context, false, talk_out, err);
    SSL_CTX_free(context); /* the talk keeps it; no certificate comes any more */
    return begun;
}
