/*
 * The same small GET again and again. libcurl connects, checks the certificate and does TLS; what else it does anew for each
 * request (options, URL, lists of headers) costs half as much as a registry's answer, on the same cores, and would be measured with it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"
#include "bench/load.h"

#define TEXT_SIZE 65536

struct again {
    CURL *curl;
    char text[TEXT_SIZE]; /* of the request, then of the answer */
};

/* "" when the answer lacks it. */
static const char *find_header(const char *head, const char *name)
{
    const size_t length = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " ");
    }
    return "";
}

/* libcurl's sockets do not wait. This one may, while there is nothing else to do; but not when libcurl closes it. */
static bool set_waiting(CURL *curl, bool waits)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD) return false;
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, waits ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

static bool connect_again(struct link *link)
{
    CURL *curl = link->again->curl = curl_easy_init();

    if (curl == NULL) return false;
    link_set_common(link, curl);
    (void)curl_easy_setopt(curl, CURLOPT_URL, link->load->options.url);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    const CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_OK) (void)fprintf(stderr, "connecting: %s\n", curl_easy_strerror(code));
    return code == CURLE_OK && set_waiting(curl, true);
}

static bool send_get(struct link *link, const char *path, const char *accept)
{
    struct again *again = link->again;
    const char *host = strstr(link->load->options.url, "://");
    int length = snprintf(again->text, sizeof again->text, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n", path,
                          host == NULL ? "" : host + 3, accept);

    if (link->load->options.login != NULL) {
        if (!link_authorization(link, again->text + length, sizeof again->text - (size_t)length)) return false;
        length += (int)strlen(again->text + length);
        length += snprintf(again->text + length, sizeof again->text - (size_t)length, "\r\n");
    }
    length += snprintf(again->text + length, sizeof again->text - (size_t)length, "\r\n");
    for (size_t sent = 0, now = 0; sent < (size_t)length; sent += now)
        if (curl_easy_send(again->curl, again->text + sent, (size_t)length - sent, &now) != CURLE_OK) return false;
    return true;
}

/* How long the whole answer is; false: this client does not understand it. */
static bool read_head(const char *head, size_t *wanted_out, long *status_out)
{
    const char *end = strstr(head, "\r\n\r\n"), *length = find_header(head, "Content-Length");
    uint64_t status = 0, body = 0;

    if (strncmp(head, "HTTP/1.1 ", 9) != 0 || strncasecmp(find_header(head, "Connection"), "close", 5) == 0) return false;
    if (!text_to_u64((struct bytes){(const uint8_t *)head + 9, 3}, 599, &status)) return false;
    if (!text_to_u64((struct bytes){(const uint8_t *)length, strcspn(length, "\r")}, TEXT_SIZE, &body)) return false;
    *wanted_out = (size_t)(end + 4 - head) + (size_t)body;
    *status_out = (long)status;
    return true;
}

static long receive_answer(struct again *again)
{
    const size_t room = sizeof again->text - 1;
    size_t received = 0, wanted = room;
    long status = -1;

    for (size_t now = 0; received < wanted; received += now) {
        if (wanted > room || curl_easy_recv(again->curl, again->text + received, room - received, &now) != CURLE_OK || now == 0)
            return -1;
        again->text[received + now] = '\0';
        if (status == -1 && strstr(again->text, "\r\n\r\n") != NULL && !read_head(again->text, &wanted, &status)) return -1;
    }
    return received == wanted ? status : -1;
}

long link_get_again(struct link *link, const char *path, const char *accept)
{
    if (link->again == NULL) {
        link->again = memory_zeroed(1, sizeof *link->again);
        if (link->again == NULL || !connect_again(link)) return -1;
    }
    const long status = send_get(link, path, accept) ? receive_answer(link->again) : -1;
    if (status == -1) (void)fprintf(stderr, "GET %s: no whole answer\n", path);
    return status;
}

void link_close_again(struct link *link)
{
    if (link->again == NULL) return;
    if (link->again->curl != NULL) {
        (void)set_waiting(link->again->curl, false);
        curl_easy_cleanup(link->again->curl);
    }
    free(link->again);
    link->again = NULL;
}
