#include "registry/manifest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "policy/label_annotation.h"
#include "registry/names/manifest_members.h"
#include "registry/names/reference.h"

static const struct media_type_row {
    const char *name;
    enum manifest_kind kind;
    bool is_dockers;
} media_types[] = {
    {MEDIA_TYPE_IMAGE, MANIFEST_IMAGE, false},
    {MEDIA_TYPE_INDEX, MANIFEST_INDEX, false},
    {MEDIA_TYPE_DOCKER, MANIFEST_IMAGE, true},
    {MEDIA_TYPE_DOCKER_LIST, MANIFEST_INDEX, true},
};

static const struct media_type_row *media_type_find(struct bytes name)
{
    for (size_t i = 0; i < sizeof media_types / sizeof media_types[0]; i++)
        if (bytes_equal(bytes_of_text(media_types[i].name), name)) return &media_types[i];
    return NULL;
}

/* In a header, the case of a media type does not matter (RFC 9110, 8.3.1). In a document it does, because clients compare the
 * letters. */
static struct bytes as_documents_write_it(struct bytes name)
{
    for (size_t i = 0; i < sizeof media_types / sizeof media_types[0]; i++) {
        const char *known = media_types[i].name;
        if (strlen(known) == name.length && strncasecmp(known, (const char *)name.data, name.length) == 0)
            return bytes_of_text(known);
    }
    return name;
}

/* "type/subtype; parameter" without the part from ';' on, and without spaces at the end. */
static struct bytes without_parameters(struct bytes content_type)
{
    const uint8_t *end = content_type.length == 0 ? NULL : memchr(content_type.data, ';', content_type.length);
    struct bytes name = content_type;

    if (end != NULL) name.length = (size_t)(end - content_type.data);
    while (name.length > 0 && (name.data[name.length - 1] == ' ' || name.data[name.length - 1] == '\t')) name.length--;
    return name;
}

bool manifest_media_type_is_known(struct bytes content_type)
{
    return media_type_find(as_documents_write_it(without_parameters(content_type))) != NULL;
}

/* RFC 6838, 4.2: restricted-name "/" restricted-name. Clients also give layers types with parameters ("text/plain;
 * charset=utf-8"). Parameters may have no character that JSON or a header would escape. */
static bool is_media_type(const char *text)
{
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&-^_.+"
    static const char letters[] = LETTERS, parameters[] = LETTERS ";= ,/:*";
    const size_t type = strspn(text, letters);

    if (type == 0 || text[type] != '/' || strlen(text) > MEDIA_TYPE_MAX) return false;
    text += type + 1;
    const size_t subtype = strspn(text, letters);
    text += subtype;
    return subtype > 0 && (*text == '\0' || (*text == ';' && text[strspn(text, parameters)] == '\0'));
}

/* null counts as an absent member, as in the parsers of Go and Rust. */
static const json_t *member_of(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);

    return json_is_null(member) ? NULL : member;
}

/* Copies the member, which must be a media type; if it is absent, "" stays. */
static struct result read_media_type(const json_t *object, const char *key, char out[MEDIA_TYPE_MAX + 1], struct error *err)
{
    const json_t *member = member_of(object, key);

    if (member == NULL) return SUCCESS;
    const char *text = json_string_value(member);
    if (text == NULL || (text[0] != '\0' && !is_media_type(text)))
        return failure(err, ERROR_INVALID, "\"%s\" is not a media type", key);
    (void)snprintf(out, MEDIA_TYPE_MAX + 1, "%s", text);
    return SUCCESS;
}

/* `data` is the content itself (image-spec, descriptor.md, "Embedded Content"). Clients use it instead of the blob, so it must
 * match. */
static struct result check_data(const json_t *descriptor, const char *where, const struct digest *digest, int64_t size,
                                struct error *err)
{
    const char *text = json_text_of(descriptor, "data");
    struct buffer OWNED_BUFFER content = BUFFER(MANIFEST_SIZE_MAX);
    struct error wrong = {0};

    if (text == NULL) return SUCCESS;
    const struct result decoded = text_from_base64(&content, BASE64_STANDARD, bytes_of_text(text), &wrong);
    if (!decoded.ok && wrong.kind != ERROR_INVALID) return failure(err, wrong.kind, "%s", wrong.message);
    const struct digest found = digest_of(digest->algorithm, buffer_bytes(&content));
    if (decoded.ok && size == (int64_t)content.length && digest_equal(&found, digest)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the \"data\" of %s is not the content of its digest and size, in base64", where);
}

/* image-spec, image-index.md: a platform must have both members. Clients that do not know them write "" or "unknown". */
static struct result check_platform(const json_t *descriptor, const char *where, struct error *err)
{
    static const char *const required[] = {"os", "architecture"};
    const json_t *platform = member_of(descriptor, "platform");

    if (platform == NULL) return SUCCESS;
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (json_text_of(platform, required[i]) == NULL)
            return failure(err, ERROR_INVALID, "the \"platform\" of %s has no \"%s\"", where, required[i]);
    return SUCCESS;
}

/* Descriptor: mediaType, digest and size are required (image-spec, descriptor.md). */
static struct result read_descriptor(const json_t *value, const char *where, struct manifest_reference *reference_out,
                                     struct error *err)
{
    char media_type[MEDIA_TYPE_MAX + 1] = "";
    struct digest digest;
    struct error ignored = {0};
    int64_t size = -1;

    if (!json_is_object(value)) return failure(err, ERROR_INVALID, "%s is not a descriptor", where);
    TRY(read_media_type(value, "mediaType", media_type, err));
    if (media_type[0] == '\0') return failure(err, ERROR_INVALID, "%s has no mediaType: some clients could not read it", where);
    const char *text = json_text_of(value, "digest");
    if (text == NULL || !digest_parse(bytes_of_text(text), &digest, &ignored).ok)
        return failure(err, ERROR_INVALID, "%s has no sha256 or sha512 digest", where);
    if (!json_integer_of(value, "size", &size) || size < 0)
        return failure(err, ERROR_INVALID, "%s has no size of 0 or more", where);
    TRY(check_data(value, where, &digest, size, err));
    TRY(check_platform(value, where, err));
    *reference_out = (struct manifest_reference){.size_bytes = size, .is_required = true};
    digest_format(&digest, reference_out->digest);
    return SUCCESS;
}

/* Layers that clients may fetch from other servers need not be in this registry (image-spec, layer.md, "Non-Distributable
 * Layers"). */
static bool layer_is_elsewhere(const json_t *layer)
{
    const char *media_type = json_text_of(layer, "mediaType");

    if (json_array_size(json_object_get(layer, "urls")) > 0) return true;
    if (media_type == NULL) return false;
    return strstr(media_type, ".nondistributable.") != NULL ||
           strcmp(media_type, "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip") == 0;
}

/* A client requests a child by this type. If the type is not a manifest's, it would look among the blobs, and not find the
 * child. */
static struct result read_child(const json_t *item, struct manifest_reference *reference, struct error *err)
{
    const char *named = json_text_of(item, "mediaType");
    const struct media_type_row *row = media_type_find(bytes_of_text(named));

    if (row == NULL)
        return failure(err, ERROR_INVALID, "the index lists %s as %.100s, which is not the media type of a manifest",
                       reference->digest, named);
    reference->is_manifest = true;
    reference->media_type = row->name;
    return SUCCESS;
}

static struct result read_list(struct manifest *manifest, const json_t *list, const char *where, struct error *err)
{
    const bool is_index = manifest->kind == MANIFEST_INDEX;
    const json_t *item = NULL;
    size_t index = 0;

    json_array_foreach (list, index, item) {
        struct manifest_reference *reference = &manifest->references[manifest->reference_count];
        TRY(read_descriptor(item, where, reference, err));
        if (is_index) TRY(read_child(item, reference, err));
        reference->is_required = is_index || !layer_is_elsewhere(item);
        manifest->reference_count++;
    }
    return SUCCESS;
}

static int compare_references(const void *a, const void *b)
{
    const struct manifest_reference *left = a, *right = b;
    const int order = strcmp(left->digest, right->digest);

    return order != 0 ? order : (int)left->is_manifest - (int)right->is_manifest;
}

/* A layer or manifest may be listed twice, but with the same size and type. If one entry requires it, it is required. */
static struct result sort_and_merge(struct manifest *manifest, struct error *err)
{
    struct manifest_reference *references = manifest->references;
    size_t kept = 0;

    if (manifest->reference_count == 0) return SUCCESS;
    qsort(references, manifest->reference_count, sizeof *references, compare_references);
    for (size_t i = 1; i < manifest->reference_count; i++) {
        if (compare_references(&references[kept], &references[i]) != 0) {
            references[++kept] = references[i];
            continue;
        }
        if (references[kept].size_bytes != references[i].size_bytes)
            return failure(err, ERROR_INVALID, "%s is listed with two sizes", references[i].digest);
        if (references[kept].media_type != references[i].media_type)
            return failure(err, ERROR_INVALID, "%s is listed as %s and as %s", references[i].digest, references[kept].media_type,
                           references[i].media_type);
        references[kept].is_required |= references[i].is_required;
    }
    manifest->reference_count = kept + 1;
    return SUCCESS;
}

static struct result read_config(struct manifest *manifest, const json_t *config, struct error *err)
{
    TRY(read_descriptor(config, "\"config\"", &manifest->references[0], err));
    manifest->reference_count = 1;
    TRY(read_media_type(config, "mediaType", manifest->config_type, err));
    if (manifest->artifact_type[0] == '\0')
        (void)snprintf(manifest->artifact_type, sizeof manifest->artifact_type, "%s", manifest->config_type);
    return SUCCESS;
}

static struct result read_references(struct manifest *manifest, const json_t *document, struct error *err)
{
    const bool is_index = manifest->kind == MANIFEST_INDEX;
    const char *key = is_index ? "manifests" : "layers";
    const json_t *list = json_object_get(document, key);
    const json_t *config = json_object_get(document, "config");

    if (!json_is_array(list)) /* null, too */
        return failure(err, ERROR_INVALID, "\"%s\" is not an array", key);
    if (json_array_size(list) >= MANIFEST_REFERENCES_MAX)
        return failure(err, ERROR_LIMIT, "\"%s\" has %zu descriptors; fewer than %d are accepted", key, json_array_size(list),
                       MANIFEST_REFERENCES_MAX);
    manifest->references = memory_zeroed(json_array_size(list) + 1, sizeof *manifest->references);
    if (manifest->references == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a manifest's descriptors");
    if (!is_index) TRY(read_config(manifest, config, err));
    TRY(read_list(manifest, list, is_index ? "a manifest of the index" : "a layer", err));
    return sort_and_merge(manifest, err);
}

/* A list of referrers repeats the annotations, and clients read at most 4 MiB of an answer. */
static struct result check_referrer(const json_t *document, struct error *err)
{
    const json_t *annotations = member_of(document, "annotations");
    struct buffer OWNED_BUFFER text = BUFFER(MANIFEST_REFERRER_ANNOTATIONS_MAX);

    if (annotations == NULL) return SUCCESS;
    const struct result result = json_write_canonical(&text, annotations, err);
    if (result.ok || err->kind != ERROR_LIMIT) return result;
    return failure(err, ERROR_INVALID,
                   "the annotations of a manifest with a \"subject\" have more than %zu bytes; put them into a layer",
                   MANIFEST_REFERRER_ANNOTATIONS_MAX);
}

static struct result read_subject(struct manifest *manifest, const json_t *document, struct error *err)
{
    const json_t *subject = member_of(document, "subject");
    struct manifest_reference reference;

    if (subject == NULL) return SUCCESS;
    TRY(check_referrer(document, err));
    TRY(read_descriptor(subject, "\"subject\"", &reference, err));
    (void)snprintf(manifest->subject, sizeof manifest->subject, "%s", reference.digest);
    return SUCCESS;
}

/*
 * Refuses members that only documents of another kind have. containers/image (skopeo, podman, CRI-O) refuses a document with
 * such a member as ambiguous. fsLayers, history and signatures are members of schema 1.
 */
static struct result check_kind_members(const json_t *document, enum manifest_kind kind, struct error *err)
{
    static const char *const of_images[] = {"manifests", "fsLayers", "history", "signatures", NULL};
    static const char *const of_indexes[] = {"layers", "config", "fsLayers", "history", "signatures", NULL};
    const bool is_index = kind == MANIFEST_INDEX;

    for (const char *const *name = is_index ? of_indexes : of_images; *name != NULL; name++)
        if (member_of(document, *name) != NULL)
            return failure(err, ERROR_INVALID, "%s with \"%s\" is ambiguous: some clients refuse it",
                           is_index ? "an index" : "an image", *name);
    return SUCCESS;
}

/* The kind of the document: from its mediaType, the request's Content-Type and its members, which must agree. */
static struct result read_kind(struct manifest *manifest, const json_t *document, struct bytes content_type, struct error *err)
{
    const struct bytes stated = as_documents_write_it(without_parameters(content_type));
    char inside[MEDIA_TYPE_MAX + 1] = "";

    TRY(read_media_type(document, "mediaType", inside, err));
    if (inside[0] != '\0' && stated.length > 0 && !bytes_equal(bytes_of_text(inside), stated))
        return failure(err, ERROR_INVALID, "the Content-Type is not the manifest's mediaType, %.100s", inside);
    struct bytes name = inside[0] != '\0' ? bytes_of_text(inside) : stated;
    if (name.length == 0) name = bytes_of_text(member_of(document, "manifests") != NULL ? MEDIA_TYPE_INDEX : MEDIA_TYPE_IMAGE);
    const struct media_type_row *row = media_type_find(name);
    if (row == NULL)
        return failure(err, ERROR_INVALID, "the media type %.*s is not one of a manifest",
                       (int)(name.length < 100 ? name.length : 100), (const char *)name.data);
    if (row->is_dockers && inside[0] == '\0')
        return failure(err, ERROR_INVALID,
                       "a manifest of the type %s must have it as its \"mediaType\", too: Docker's clients could not read it",
                       row->name);
    TRY(check_kind_members(document, row->kind, err));
    manifest->kind = row->kind;
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%s", row->name);
    return SUCCESS;
}

static struct result check_document(const json_t *document, struct error *err)
{
    const json_t *annotations = member_of(document, "annotations");
    const json_t *value = NULL;
    const char *key = NULL;
    int64_t version = 0;

    if (!json_is_object(document)) return failure(err, ERROR_INVALID, "a manifest is a JSON object");
    if (!json_integer_of(document, "schemaVersion", &version) || version != 2)
        return failure(err, ERROR_INVALID, "\"schemaVersion\" is not 2");
    if (annotations == NULL) return SUCCESS;
    if (!json_is_object(annotations)) return failure(err, ERROR_INVALID, "\"annotations\" is not an object");
    json_object_foreach ((json_t *)(uintptr_t)annotations, key, value) {
        if (!json_is_string(value)) return failure(err, ERROR_INVALID, "the annotation %.100s is not a text", key);
    }
    return SUCCESS;
}

/* A label that can't be read would be lost, so it is refused. */
static struct result read_label(struct manifest *manifest, const json_t *document, struct error *err)
{
    OWNED_STATED_LABEL stated = {.json = NULL};

    TRY(label_annotation_of(document, &stated, err));
    if (stated.json == NULL) return SUCCESS;
    const char *text = json_text_of(json_object_get(document, "annotations"), LABEL_ANNOTATION);
    manifest->label = memory_copy_text(text, strlen(text));
    return manifest->label != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for the label of a manifest");
}

static struct result read_base(struct bytes word, char base[BASE_NAME_MAX + 1], struct error *err)
{
    const uint8_t *at = word.length == 0 ? NULL : memchr(word.data, '@', word.length);
    const struct bytes name = {word.data, at == NULL ? word.length : (size_t)(at - word.data)};
    struct repository_name parts;
    struct digest digest;
    struct error why = {0};

    if (!repository_name_split(name, &parts, &why).ok ||
        (at != NULL && !digest_parse((struct bytes){at + 1, word.length - name.length - 1}, &digest, &why).ok))
        return failure(err, ERROR_INVALID,
                       "the annotation " BASE_ANNOTATION
                       " has \"%.*s\": write organisation/project/name, or the same with @digest",
                       (int)(word.length < 100 ? word.length : 100), (const char *)word.data);
    (void)snprintf(base, BASE_NAME_MAX + 1, "%.*s", (int)name.length, (const char *)name.data);
    return SUCCESS;
}

/* What the content was made from. A base that can't be read would be lost, so it is refused. Of OCI's annotation only its reader can tell whether it
 * names a repository here. */
static struct result read_bases(struct manifest *manifest, const json_t *document, struct error *err)
{
    const json_t *annotations = member_of(document, "annotations");
    const char *text = json_text_of(annotations, BASE_ANNOTATION), *oci = json_text_of(annotations, OCI_BASE_ANNOTATION);
    struct bytes rest = bytes_of_text(text == NULL ? "" : text);

    if (oci != NULL) manifest->oci_base = memory_copy_text(oci, strlen(oci));
    if (text != NULL) manifest->bases = memory_zeroed(MANIFEST_BASES_MAX, sizeof *manifest->bases);
    if ((oci != NULL && manifest->oci_base == NULL) || (text != NULL && manifest->bases == NULL))
        return failure(err, ERROR_NO_MEMORY, "no memory for the bases of a manifest");
    if (text != NULL && text[0] == '\0') return failure(err, ERROR_INVALID, "the annotation " BASE_ANNOTATION " is empty");
    while (rest.length > 0) {
        if (manifest->base_count == MANIFEST_BASES_MAX)
            return failure(err, ERROR_LIMIT, "the annotation " BASE_ANNOTATION " names more than %d repositories",
                           MANIFEST_BASES_MAX);
        TRY(read_base(text_cut(&rest, ' '), manifest->bases[manifest->base_count], err));
        manifest->base_count++;
    }
    return SUCCESS;
}

struct result manifest_parse(struct bytes body, struct bytes content_type, struct manifest **manifest_out, struct error *err)
{
    OWNED_JSON document = NULL;

    if (body.length == 0) return failure(err, ERROR_INVALID, "the body is empty: a manifest is a JSON object");
    TRY(json_read_any_number(body, MANIFEST_SIZE_MAX, &document, err));
    TRY(check_document(document, err));
    TRY(manifest_check_members(document, err));
    OWNED(manifest) *manifest = memory_zeroed(1, sizeof *manifest);
    if (manifest == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a manifest");
    TRY(read_kind(manifest, document, content_type, err));
    TRY(read_media_type(document, "artifactType", manifest->artifact_type, err));
    TRY(read_references(manifest, document, err));
    TRY(read_subject(manifest, document, err));
    TRY(read_label(manifest, document, err));
    TRY(read_bases(manifest, document, err));
    *manifest_out = GIVE(manifest);
    return SUCCESS;
}

void manifest_free(struct manifest *manifest)
{
    if (manifest == NULL) return;
    free(manifest->references);
    free(manifest->label);
    free(manifest->bases);
    free(manifest->oci_base);
    free(manifest);
}
