#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/s3_http_priv.h"

#define KEY_FILE_MAX 1024 /* an id of 128 and a secret of a few hundred characters */

/* ---- The access key ---- */

/* Removes the next line from the start of *text. The result has no line end. */
static struct bytes take_line(struct bytes *text)
{
    const uint8_t *end = text->length == 0 ? NULL : memchr(text->data, '\n', text->length);
    struct bytes line = {text->data, end == NULL ? text->length : (size_t)(end - text->data)};

    text->data += line.length + (end != NULL);
    text->length -= line.length + (end != NULL);
    while (line.length > 0 && (line.data[line.length - 1] == '\r' || line.data[line.length - 1] == ' ')) line.length--;
    return line;
}

static bool is_word(struct bytes line)
{
    for (size_t i = 0; i < line.length; i++)
        if (line.data[i] <= ' ' || line.data[i] > '~') return false;
    return line.length > 0;
}

struct result s3_key_parse(struct bytes text, struct s3_key *key_out, struct error *err)
{
    static const char prefix[] = {'A', 'W', 'S', '4'};
    struct s3_key key = {.secret = NULL};
    const struct bytes id = take_line(&text), secret = take_line(&text);

    if (!is_word(id) || !is_word(secret) || id.length >= sizeof key.id || memchr(id.data, '/', id.length) != NULL)
        return failure(err, ERROR_INVALID,
                       "the file of the access key must have the id on its first and the secret on its second line");
    memcpy(key.id, id.data, id.length);
    TRY(secret_new(sizeof prefix + secret.length, &key.secret, err));
    memcpy(key.secret->bytes, prefix, sizeof prefix);
    memcpy(key.secret->bytes + sizeof prefix, secret.data, secret.length);
    *key_out = key;
    return SUCCESS;
}

static struct result read_key(const char *path, struct s3_key *key_out, struct error *err)
{
    OWNED_FD file = -1;
    uint8_t text[KEY_FILE_MAX];
    size_t length = 0;
    struct stat about;

    TRY(file_open(path, O_RDONLY | O_NOCTTY, 0, &file, err));
    TRY(file_status(file, &about, err));
    if (!S_ISREG(about.st_mode) || (about.st_mode & 027) != 0)
        return failure(err, ERROR_DENIED, "others may read or write the access key: chmod 600 %.160s", path);
    TRY(file_read_some(file, text, sizeof text, 0, &length, err));
    const struct result result = s3_key_parse((struct bytes){text, length}, key_out, err);
    secret_wipe(text, sizeof text);
    return result;
}

struct result s3_reread_key(struct s3 *s3, struct error *err)
{
    struct s3_key key = {.secret = NULL};

    TRY(read_key(s3->access_key_file, &key, err));
    (void)pthread_mutex_lock(&s3->lock);
    struct secret *old = s3->key.secret;
    s3->key = key;
    (void)pthread_mutex_unlock(&s3->lock);
    secret_free(old);
    return SUCCESS;
}

/* ---- Opening ---- */

/* https://host or https://host:port. The default port of https is left out, as clients leave it out of Host. */
static struct result take_endpoint(struct s3 *s3, const char *endpoint, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]";
    static const char usual[] = ":443";
    const char *host = endpoint + strlen("https://");
    size_t length = 0;

    if (strncmp(endpoint, "https://", strlen("https://")) != 0 || host[0] == '\0' || host[strspn(host, letters)] != '\0')
        return failure(err, ERROR_INVALID, "endpoint = %.100s: https://host or https://host:port, without a path", endpoint);
    length = strlen(host);
    if (length > strlen(usual) && strcmp(host + length - strlen(usual), usual) == 0) length -= strlen(usual);
    const int written = snprintf(s3->endpoint, sizeof s3->endpoint, "https://%.*s", (int)length, host);
    if (written < 0 || (size_t)written >= sizeof s3->endpoint) return failure(err, ERROR_INVALID, "endpoint: it is too long");
    return text_copy_setting(s3->host, sizeof s3->host, "endpoint", s3->endpoint + strlen("https://"), err);
}

/* Amazon's rule for names of buckets, dots included. Such a name needs no encoding in a path. */
static struct result take_bucket(struct s3 *s3, const char *bucket, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
    const size_t length = strlen(bucket);

    if (length < 3 || length > 63 || bucket[strspn(bucket, letters)] != '\0' || strstr(bucket, "..") != NULL)
        return failure(err, ERROR_INVALID, "bucket = %.70s: 3 to 63 of a-z, 0-9, '.' and '-'", bucket);
    return text_copy_setting(s3->bucket, sizeof s3->bucket, "bucket", bucket, err);
}

static struct result take_options(struct s3 *s3, const struct s3_options *options, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    TRY(take_endpoint(s3, options->endpoint, err));
    TRY(take_bucket(s3, options->bucket, err));
    if (options->location[0] == '\0' || options->location[strspn(options->location, letters)] != '\0')
        return failure(err, ERROR_INVALID, "bucket_location = %.70s: where the bucket must be, such as me-central-1",
                       options->location);
    TRY(text_copy_setting(s3->location, sizeof s3->location, "bucket_location", options->location, err));
    TRY(text_copy_setting(s3->access_key_file, sizeof s3->access_key_file, "access_key_file", options->access_key_file, err));
    TRY(text_copy_setting(s3->ca_file, sizeof s3->ca_file, "ca_file", options->ca_file, err));
    TRY(networks_parse("endpoint_networks", options->networks == NULL ? "" : options->networks, &s3->networks, err));
    s3->tries_max = options->tries_max == 0 ? 7 : options->tries_max;
    s3->pause_ms = options->pause_ms == 0 ? 100 : options->pause_ms;
    s3->silence_s = options->silence_s == 0 ? 30 : options->silence_s;
    return SUCCESS;
}

struct result s3_check_options(const struct s3_options *options, struct error *err)
{
    struct s3 *s3 = memory_zeroed(1, sizeof *s3);

    if (s3 == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bucket");
    const struct result result = take_options(s3, options, err);
    free(s3);
    return result;
}

struct result s3_new(const struct s3_options *options, struct s3 **s3_out, struct error *err)
{
    OWNED(s3) *s3 = memory_zeroed(1, sizeof *s3);

    if (s3 == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a bucket");
    (void)pthread_mutex_init(&s3->lock, NULL);
    TRY(take_options(s3, options, err));
    const struct outgoing_options rules = {
        .reach = s3->networks.count == 0 ? OUTGOING_USUAL : OUTGOING_LISTED, .networks = s3->networks, .ca_file = s3->ca_file};
    TRY(outgoing_new(&rules, &s3->outgoing, err));
    TRY(s3_reread_key(s3, err));
    *s3_out = GIVE(s3);
    return SUCCESS;
}

void s3_free(struct s3 *s3)
{
    if (s3 == NULL) return;
    outgoing_free(s3->outgoing);
    secret_free(s3->key.secret);
    (void)pthread_mutex_destroy(&s3->lock);
    free(s3);
}
