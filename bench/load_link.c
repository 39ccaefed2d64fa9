/* One kept-alive connection, tokens, and the exchanges of OCI Distribution. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/json.h"
#include "bench/load.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define EMPTY_DIGEST  "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
/* As Go's clients (docker, oras, crane, skopeo) order them. Go's servers take the first of these whatever a client prefers, GnuTLS and
   OpenSSL what it prefers: without this the registries would be compared with keys of different lengths. */
#define CIPHERS        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define COMPLAINTS_MAX 5      /* the rest is counted */
#define TOKEN_RENEW_MS 200000 /* tokens live 300 s */

struct sending {
    const struct exchange *exchange;
    uint64_t sent;
};

static size_t on_send(char *place, size_t size, size_t count, void *context)
{
    struct sending *sending = context;
    const uint64_t left = sending->exchange->length - sending->sent;
    const size_t length = left < size * count ? (size_t)left : size * count;

    if (sending->exchange->blob != NULL) load_blob_bytes(sending->exchange->blob, sending->sent, (uint8_t *)place, length);
    else memcpy(place, sending->exchange->text + sending->sent, length);
    sending->sent += length;
    return length;
}

static size_t on_receive(char *bytes, size_t size, size_t count, void *context)
{
    struct link *link = context;

    if (link->expected != NULL && !load_blob_matches(link->expected, link->received, (const uint8_t *)bytes, size * count))
        link->differs = true;
    link->received += size * count;
    return size * count;
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    struct link *link = context;
    size_t length = size * count;

    if (length > 10 && strncasecmp(line, "location: ", 10) == 0) {
        while (length > 10 && (line[length - 1] == '\r' || line[length - 1] == '\n')) length--;
        (void)snprintf(link->location, sizeof link->location, "%.*s", (int)(length - 10), line + 10);
    }
    return size * count;
}

bool link_open(struct link *link, struct load *load)
{
    *link = (struct link){.load = load, .curl = curl_easy_init()};
    return link->curl != NULL;
}

void link_close(struct link *link)
{
    if (link->curl != NULL) curl_easy_cleanup(link->curl);
    curl_slist_free_all(link->headers);
    link_close_again(link);
}

void link_set_common(struct link *link, CURL *curl)
{
    curl_easy_reset(curl);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_receive);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, link);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, link);
    (void)curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
    (void)curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
    (void)curl_easy_setopt(curl, CURLOPT_TLS13_CIPHERS, CIPHERS);
    if (link->load->options.ca_file != NULL) (void)curl_easy_setopt(curl, CURLOPT_CAINFO, link->load->options.ca_file);
}

struct text {
    char bytes[16384]; /* an answer of /token is at most 12 KiB */
    size_t length;
};

static size_t on_text(char *bytes, size_t size, size_t count, void *context)
{
    struct text *text = context;

    if (text->length + size * count >= sizeof text->bytes) return 0;
    memcpy(text->bytes + text->length, bytes, size * count);
    text->length += size * count;
    return size * count;
}

static bool ask_token(struct link *link, struct text *text)
{
    const struct load_options *options = &link->load->options;
    char url[1024];

    if (options->scope != NULL) (void)snprintf(url, sizeof url, "%s/token?scope=%s", options->url, options->scope);
    else (void)snprintf(url, sizeof url, "%s/token?scope=repository:%s:pull,push", options->url, options->repository);
    link_set_common(link, link->curl);
    (void)curl_easy_setopt(link->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(link->curl, CURLOPT_USERPWD, options->login);
    (void)curl_easy_setopt(link->curl, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(link->curl, CURLOPT_WRITEFUNCTION, on_text);
    (void)curl_easy_setopt(link->curl, CURLOPT_WRITEDATA, text);
    const CURLcode code = curl_easy_perform(link->curl);
    if (code != CURLE_OK) (void)fprintf(stderr, "GET /token: %s\n", curl_easy_strerror(code));
    return code == CURLE_OK;
}

bool load_get_token(struct link *link)
{
    struct text text = {.length = 0};

    return ask_token(link, &text) && text.length > 0;
}

/* All clients share one token: the registry decides each request anew, whoever it came from. */
static bool renew_token(struct link *link)
{
    struct load *load = link->load;
    struct text text = {.length = 0};
    struct error ignored = {0};
    OWNED_JSON answer = NULL;

    if (load->token_until_ms > clock_monotonic_ms()) return true;
    if (!ask_token(link, &text) ||
        !json_read((struct bytes){(uint8_t *)text.bytes, text.length}, sizeof text.bytes, &answer, &ignored).ok)
        return false;
    const char *token = json_text_of(answer, "token");
    if (token == NULL) return false;
    (void)snprintf(load->token, sizeof load->token, "%s", token);
    load->token_until_ms = clock_monotonic_ms() + TOKEN_RENEW_MS;
    return true;
}

bool link_authorization(struct link *link, char *line, size_t size)
{
    pthread_mutex_lock(&link->load->token_mutex);
    const bool renewed = renew_token(link);
    (void)snprintf(line, size, "Authorization: Bearer %s", link->load->token);
    pthread_mutex_unlock(&link->load->token_mutex);
    return renewed;
}

static bool add_headers(struct link *link, const struct exchange *exchange)
{
    char line[16384];

    curl_slist_free_all(link->headers);
    link->headers = curl_slist_append(NULL, "Expect:");
    if (link->load->options.login != NULL) {
        if (!link_authorization(link, line, sizeof line)) return false;
        link->headers = curl_slist_append(link->headers, line);
    }
    if (exchange->content_type != NULL) {
        (void)snprintf(line, sizeof line, "Content-Type: %s", exchange->content_type);
        link->headers = curl_slist_append(link->headers, line);
    }
    if (exchange->accept != NULL) {
        (void)snprintf(line, sizeof line, "Accept: %s", exchange->accept);
        link->headers = curl_slist_append(link->headers, line);
    }
    return link->headers != NULL;
}

long link_call(struct link *link, const struct exchange *exchange)
{
    struct sending sending = {.exchange = exchange};
    char url[4096];
    long status = -1;

    if (!add_headers(link, exchange)) return -1;
    link_set_common(link, link->curl);
    (void)snprintf(url, sizeof url, "%s%s", exchange->path[0] == '/' ? link->load->options.url : "", exchange->path);
    link->location[0] = '\0';
    link->received = 0;
    (void)curl_easy_setopt(link->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(link->curl, CURLOPT_HTTPHEADER, link->headers);
    if (strcmp(exchange->method, "HEAD") == 0) {
        (void)curl_easy_setopt(link->curl, CURLOPT_NOBODY, 1L);
    } else if (strcmp(exchange->method, "GET") != 0) {
        (void)curl_easy_setopt(link->curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(link->curl, CURLOPT_READFUNCTION, on_send);
        (void)curl_easy_setopt(link->curl, CURLOPT_READDATA, &sending);
        (void)curl_easy_setopt(link->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)exchange->length);
        (void)curl_easy_setopt(link->curl, CURLOPT_CUSTOMREQUEST, exchange->method);
    }
    const CURLcode code = curl_easy_perform(link->curl);
    if (code == CURLE_OK) (void)curl_easy_getinfo(link->curl, CURLINFO_RESPONSE_CODE, &status);
    else (void)fprintf(stderr, "%s %s: %s\n", exchange->method, exchange->path, curl_easy_strerror(code));
    return status;
}

static bool expect(const char *what, long wanted, long status)
{
    static _Atomic unsigned said;

    if (status == wanted) return true;
    if (atomic_fetch_add(&said, 1) < COMPLAINTS_MAX)
        (void)fprintf(stderr, "%s: status %ld instead of %ld\n", what, status, wanted);
    return false;
}

static bool close_upload(struct link *link, const char *digest, const struct load_blob *blob, uint64_t length, const char *text)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s%sdigest=%s", link->location, strchr(link->location, '?') == NULL ? "?" : "&", digest);
    const struct exchange put = {
        .method = "PUT", .path = path, .content_type = "application/octet-stream", .blob = blob, .length = length, .text = text};
    return expect("PUT of a blob", 201, link_call(link, &put));
}

static bool begin_upload(struct link *link)
{
    char path[512];

    (void)snprintf(path, sizeof path, "/v2/%s/blobs/uploads/", link->load->options.repository);
    const struct exchange post = {.method = "POST", .path = path};
    return expect("POST of an upload", 202, link_call(link, &post));
}

/* "Pushing a blob monolithically": a registry that doesn't take it in the POST answers with a session. */
static bool post_whole(struct link *link, const struct load_blob *blob, uint64_t length)
{
    char path[1024];

    (void)snprintf(path, sizeof path, "/v2/%s/blobs/uploads/?digest=%s", link->load->options.repository, blob->digest);
    const struct exchange post = {
        .method = "POST", .path = path, .content_type = "application/octet-stream", .blob = blob, .length = length};
    const long status = link_call(link, &post);
    if (status != 202) return expect("POST of a blob", 201, status);
    atomic_store(&link->load->wants_sessions, true);
    return close_upload(link, blob->digest, blob, length, NULL);
}

bool load_push_blob(struct link *link, const struct load_blob *blob, uint64_t size)
{
    if (link->load->options.whole && !atomic_load(&link->load->wants_sessions)) return post_whole(link, blob, size);
    if (!begin_upload(link)) return false;
    if (!link->load->options.patch) return close_upload(link, blob->digest, blob, size, NULL);

    char path[sizeof link->location];
    memcpy(path, link->location, sizeof path);
    const struct exchange patch = {
        .method = "PATCH", .path = path, .content_type = "application/octet-stream", .blob = blob, .length = size};
    return expect("PATCH", 202, link_call(link, &patch)) && close_upload(link, blob->digest, NULL, 0, NULL);
}

bool load_pull_blob(struct link *link, const struct load_blob *blob, uint64_t size)
{
    char path[512];

    (void)snprintf(path, sizeof path, "/v2/%s/blobs/%s", link->load->options.repository, blob->digest);
    const struct exchange get = {.method = "GET", .path = path};
    link->expected = link->load->options.check ? blob : NULL;
    link->differs = false;
    const long status = link_call(link, &get);
    link->expected = NULL;
    if (link->differs && status == 200) (void)fprintf(stderr, "GET of a blob: other bytes than were pushed\n");
    return expect("GET of a blob", 200, status) && link->received == size && !link->differs;
}

bool load_push_empty(struct link *link)
{
    return begin_upload(link) && close_upload(link, EMPTY_DIGEST, NULL, 2, "{}");
}

static bool put_manifest(struct link *link, const struct load_blob *blob, const char *path)
{
    char manifest[1024];
    const int length = snprintf(
        manifest, sizeof manifest,
        "{\"schemaVersion\":2,\"mediaType\":\"" MANIFEST_TYPE
        "\",\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\","
        "\"digest\":\"" EMPTY_DIGEST
        "\",\"size\":2},\"layers\":[{\"mediaType\":\"application/octet-stream\",\"digest\":\"%s\",\"size\":%" PRIu64 "}]}",
        blob->digest, link->load->options.size);
    const struct exchange put = {
        .method = "PUT", .path = path, .content_type = MANIFEST_TYPE, .text = manifest, .length = (uint64_t)length};

    return expect("PUT of a manifest", 201, link_call(link, &put));
}

bool load_push_manifest(struct link *link)
{
    struct load *load = link->load;

    (void)snprintf(load->manifest_path, sizeof load->manifest_path, "/v2/%s/manifests/bench", load->options.repository);
    return load_push_empty(link) && put_manifest(link, &load->blobs[0], load->manifest_path);
}

bool load_push_artifact(struct link *link, const struct load_blob *blob, uint64_t size)
{
    const char *hex = strchr(blob->digest, ':') + 1;
    char path[512];

    (void)snprintf(path, sizeof path, "/v2/%s/manifests/a%.16s", link->load->options.repository, hex);
    return load_push_blob(link, blob, size) && put_manifest(link, blob, path);
}

bool load_get_manifest(struct link *link)
{
    const struct exchange get = {.method = "GET", .path = link->load->manifest_path, .accept = MANIFEST_TYPE};

    return expect("GET of a manifest", 200, link_call(link, &get));
}

bool load_get_manifest_again(struct link *link)
{
    return expect("GET of a manifest", 200, link_get_again(link, link->load->manifest_path, MANIFEST_TYPE));
}

bool load_ask(struct link *link, unsigned index)
{
    const char *line = link->load->paths[index % link->load->path_count];
    const bool is_head = strncmp(line, "HEAD ", 5) == 0;
    const struct exchange ask = {.method = is_head ? "HEAD" : "GET", .path = strchr(line, ' ') + 1, .accept = MANIFEST_TYPE};

    return expect(line, 200, link_call(link, &ask));
}
