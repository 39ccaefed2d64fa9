#include "client/reference.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "client/address.h"
#include "crypto/digest.h"
#include "registry/names/reference.h"

#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]"

static struct result take_part(const char *from, size_t length, char *destination, size_t room, const char *what,
                               struct error *err)
{
    if (length == 0 || length >= room) return failure(err, ERROR_INVALID, "a %s of %zu characters", what, length);
    memcpy(destination, from, length);
    destination[length] = '\0';
    return SUCCESS;
}

static struct result take_reference(const char *text, struct remote_reference *reference, struct error *err)
{
    struct digest digest;

    TRY(take_part(text, strlen(text), reference->reference, sizeof reference->reference, "tag or digest", err));
    reference->was_given = true;
    return reference->is_digest ? digest_parse(bytes_of_text(text), &digest, err) : SUCCESS;
}

static struct result check_tag(const char *text, size_t length, struct error *err)
{
    if (tag_is_valid((struct bytes){(const uint8_t *)text, length})) return SUCCESS;
    return failure(err, ERROR_INVALID, "'%.*s' is no tag: letters, digits, '_', '.' and '-', at most %d",
                   length < 60 ? (int)length : 60, text, TAG_MAX);
}

/* "acme/models/digits" without a host in front has two segments behind the first one. */
static struct result check_repository(const char *text, const struct remote_reference *reference, struct error *err)
{
    struct repository_name name;

    if (repository_name_split(bytes_of_text(reference->repository), &name, err).ok) return SUCCESS;
    if (strpbrk(reference->host, ".:") != NULL || strcmp(reference->host, "localhost") == 0) return (struct result){.ok = false};
    return failure(err, ERROR_INVALID, "'%.80s': is the host missing? HOST[:PORT]/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST]",
                   text);
}

struct result remote_reference_parse(const char *text, struct remote_reference *reference_out, struct error *err)
{
    struct remote_reference reference = {.reference = "latest"};
    const char *slash = strchr(text, '/');

    TRY(address_check(text, err));
    if (strstr(text, "://") != NULL)
        return failure(err, ERROR_INVALID, "'%.100s': leave out %.*s", text, (int)(strstr(text, "://") - text + 3), text);
    if (slash == NULL || slash == text)
        return failure(err, ERROR_INVALID, "'%.100s' is not HOST/ORGANISATION/PROJECT/REPOSITORY[:TAG|@DIGEST]", text);
    TRY(take_part(text, (size_t)(slash - text), reference.host, sizeof reference.host, "host", err));
    if (!text_consists_of(bytes_of_text(reference.host), HOST_LETTERS))
        return failure(err, ERROR_INVALID, "'%.80s' is no host", reference.host);

    const char *path = slash + 1, *at = strchr(path, '@'), *colon = strchr(path, ':');
    if (colon != NULL && at != NULL && colon > at) colon = NULL; /* of the digest */
    const char *end = colon != NULL ? colon : at;
    TRY(take_part(path, end == NULL ? strlen(path) : (size_t)(end - path), reference.repository, sizeof reference.repository,
                  "repository", err));
    TRY(check_repository(text, &reference, err));
    if (colon != NULL) TRY(check_tag(colon + 1, at == NULL ? strlen(colon + 1) : (size_t)(at - colon - 1), err));
    reference.is_digest = at != NULL; /* with a tag in front, the digest alone counts */
    if (end != NULL) TRY(take_reference(at != NULL ? at + 1 : end + 1, &reference, err));
    *reference_out = reference;
    return SUCCESS;
}
