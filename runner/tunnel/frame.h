/*
 * runner/tunnel/frame.h -- what two nodes of an attempt say to each other over TLS, and which packets may pass between them.
 *
 * A frame is a letter, the length of its content in two bytes (big-endian), and the content. The first frame of each side is a hello:
 * a version, the digest of its own lease, and that of the other side's lease. After it come packets, and a bye at the end.
 */
#pragma once

#include "base/bytes.h"

#define TUNNEL_HEAD_SIZE   3
#define TUNNEL_PACKET_MAX  16000 /* bytes: NODES_MTU */
#define TUNNEL_FRAME_MAX   (TUNNEL_HEAD_SIZE + TUNNEL_PACKET_MAX)
#define TUNNEL_DIGEST_SIZE 32
#define TUNNEL_HELLO_SIZE  (1 + 2 * TUNNEL_DIGEST_SIZE)
#define TUNNEL_VERSION     1

enum tunnel_kind { TUNNEL_HELLO = 'h', TUNNEL_PACKET = 'p', TUNNEL_BYE = 'e' };

struct tunnel_frame {
    enum tunnel_kind kind;
    struct bytes content; /* a view */
};

/** The first frame in `bytes`. *length_out is its length with its head; 0: its end has not come yet. ERROR_INVALID: this is no frame. */
RESULT tunnel_frame_read(struct bytes bytes, struct tunnel_frame *frame_out, size_t *length_out, struct error *err);
/** The head of a frame whose content has so many bytes, at most TUNNEL_PACKET_MAX. */
void tunnel_frame_head(enum tunnel_kind kind, size_t length, uint8_t head_out[TUNNEL_HEAD_SIZE]);

void tunnel_hello_write(const uint8_t own[TUNNEL_DIGEST_SIZE], const uint8_t other[TUNNEL_DIGEST_SIZE],
                        uint8_t hello_out[TUNNEL_HELLO_SIZE]);

/** The addresses of a packet, in the order of this machine. */
struct tunnel_packet {
    uint32_t from, to;
};
/**
 * False for everything that is not one whole IPv4 packet without options (RFC 791), of TCP, UDP, or the messages of ICMP that ordinary programs need: then
 * it must not pass. What the packet carries is the kernel's to check.
 */
bool tunnel_packet_read(struct bytes bytes, struct tunnel_packet *packet_out);
