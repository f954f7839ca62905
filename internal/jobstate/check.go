package jobstate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// bbolt trusts the pages of its file: a wrong page id or length in one of them makes it read outside the mapping, recurse
// without end or panic in a goroutine of its own, and none of these can be recovered from. check therefore walks the whole
// tree first, with every offset checked. It knows bbolt's file format, version 2, which is fixed:
//
//	page    id u64, flags u16, count u16, overflow u32; count elements of 16 bytes; keys and values
//	meta    magic, version, page size, flags u32; root bucket; freelist page, high water mark, transaction u64; FNV-1a u64
//	branch  pos, ksize u32; child page u64
//	leaf    flags, pos, ksize, vsize u32
//	bucket  root page u64 (0: its only page follows), sequence u64
const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	noFreelist     = ^uint64(0)
	pageHeader     = 16
	elementSize    = 16
	bucketHeader   = 16
	metaSize       = 64
	branchPage     = 0x01
	leafPage       = 0x02
	freelistPage   = 0x10
	bucketElement  = 0x01
	minPageSize    = 1 << 10
	maxPageSize    = 1 << 16
	manyFreePages  = 0xFFFF // count of a freelist page whose first element is the real count
	firstDataPage  = 2
	freelistIDSize = 8
)

var native = binary.NativeEndian // bbolt writes the words of the machine

// meta is what check needs of a valid meta page.
type meta struct {
	pageSize       int
	root           uint64
	freelist, high uint64
	txid           uint64
}

// check returns what is wrong with the database file of which data is the content. Nil means that bbolt can read
// everything in it and write to it. It fails with *VersionError when the file format is a later one.
func check(data []byte) error {
	m, err := newestMeta(data)
	if err != nil {
		return err
	}
	if m.high < firstDataPage || m.high > uint64(len(data)/m.pageSize) {
		return fmt.Errorf("%d pages, but the file has %d", m.high, len(data)/m.pageSize)
	}
	c := &checker{data: data, pageSize: m.pageSize, seen: make([]bool, m.high)}
	if err := c.bucket(m.root); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil // abandoned by a repair tool; bbolt makes a new one from the tree
	}
	return c.freelist(m.freelist)
}

// newestMeta returns the meta page that bbolt goes by: the valid one of the later transaction. There is one at the start
// and one a page later; when the first is lost the size of a page has to be guessed.
func newestMeta(data []byte) (meta, error) {
	m, err := metaAt(data, 0)
	if err == nil {
		if m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0 {
			return meta{}, fmt.Errorf("page size %d", m.pageSize)
		}
		if second, err := metaAt(data, m.pageSize); err == nil && second.txid > m.txid {
			second.pageSize, m = m.pageSize, second
		}
		return m, nil
	}
	for size := minPageSize; size <= maxPageSize; size *= 2 {
		m, err2 := metaAt(data, size)
		if err2 == nil && m.pageSize != size {
			err2 = fmt.Errorf("page size %d in the meta page at %d", m.pageSize, size)
		}
		if err2 == nil {
			return m, nil
		}
	}
	return meta{}, fmt.Errorf("no valid meta page: %w", err)
}

// metaAt returns the meta page at offset. It fails when there is no valid one.
func metaAt(data []byte, offset int) (meta, error) {
	if len(data)-pageHeader-metaSize < offset {
		return meta{}, fmt.Errorf("file of %d bytes", len(data))
	}
	b := data[offset+pageHeader:][:metaSize]
	if magic := native.Uint32(b); magic != boltMagic {
		return meta{}, fmt.Errorf("magic %#x", magic)
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if got, want := native.Uint64(b[56:]), sum.Sum64(); got != want {
		return meta{}, fmt.Errorf("meta checksum %#x, want %#x", got, want)
	}
	if v := native.Uint32(b[4:]); v != boltVersion {
		return meta{}, &VersionError{Have: uint64(v), Know: boltVersion, What: "file format"}
	}
	return meta{
		pageSize: int(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		high:     native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}, nil
}

// checker walks a tree; seen marks the pages that something refers to, so that no page has two parents.
type checker struct {
	data     []byte
	pageSize int
	seen     []bool
}

// page returns page id with its overflow pages, after marking them.
func (c *checker) page(id uint64) ([]byte, error) {
	high := uint64(len(c.seen))
	if id < firstDataPage || id >= high {
		return nil, fmt.Errorf("page %d: not in 2-%d", id, high-1)
	}
	b := c.data[id*uint64(c.pageSize):]
	if got := native.Uint64(b); got != id {
		return nil, fmt.Errorf("page %d: calls itself %d", id, got)
	}
	n := uint64(native.Uint32(b[12:])) + 1
	if n > high-id {
		return nil, fmt.Errorf("page %d: %d pages long, the last is %d", id, n, high-1)
	}
	for i := id; i < id+n; i++ {
		if c.seen[i] {
			return nil, fmt.Errorf("page %d: used twice", i)
		}
		c.seen[i] = true
	}
	return b[:n*uint64(c.pageSize)], nil
}

// bucket checks the tree under the page root.
func (c *checker) bucket(root uint64) error { return c.subtree(root, nil, nil) }

// subtree checks page id and what is below it. Its keys are to lie in [low, high); nil is no bound.
func (c *checker) subtree(id uint64, low, high []byte) error {
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if err := c.node(b, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// node checks one leaf or branch page, b being all of it.
func (c *checker) node(b, low, high []byte) error {
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	data := pageHeader + count*elementSize
	switch {
	case flags != branchPage && flags != leafPage:
		return fmt.Errorf("flags %#x", flags)
	case data > len(b):
		return fmt.Errorf("%d elements in %d bytes", count, len(b))
	case flags == branchPage && count == 0:
		return errors.New("branch without children")
	}
	var keys [][]byte
	next := uint64(data) // bbolt leaves no gaps, so a wrong count or length shows
	for i := range count {
		at := pageHeader + i*elementSize
		e := b[at : at+elementSize]
		pos, ksize, vsize := native.Uint32(e), native.Uint32(e[4:]), uint32(0)
		if flags == leafPage {
			pos, ksize, vsize = native.Uint32(e[4:]), native.Uint32(e[8:]), native.Uint32(e[12:])
		}
		start := uint64(at) + uint64(pos)
		if start != next || start+uint64(ksize)+uint64(vsize) > uint64(len(b)) {
			return fmt.Errorf("element %d: %d+%d bytes at %d of %d, not at %d", i, ksize, vsize, start, len(b), next)
		}
		next = start + uint64(ksize) + uint64(vsize)
		key := b[start : start+uint64(ksize)]
		if i > 0 && bytes.Compare(keys[i-1], key) >= 0 || high != nil && bytes.Compare(key, high) >= 0 ||
			flags == leafPage && low != nil && bytes.Compare(key, low) < 0 {
			return fmt.Errorf("element %d: key %q out of order", i, key)
		}
		keys = append(keys, key)
		if flags == leafPage && native.Uint32(e)&bucketElement != 0 {
			if err := c.nested(b[start+uint64(ksize):][:vsize]); err != nil {
				return fmt.Errorf("bucket %q: %w", key, err)
			}
		}
	}
	if flags == branchPage {
		return c.children(b, keys, low, high)
	}
	return nil
}

// children checks what is below a branch page. bbolt looks for a key in the last child whose own key is not greater, or
// else in the first one.
func (c *checker) children(b []byte, keys [][]byte, low, high []byte) error {
	for i := range keys {
		childLow, childHigh := low, high
		if i > 0 {
			childLow = keys[i]
		}
		if i+1 < len(keys) {
			childHigh = keys[i+1]
		}
		child := native.Uint64(b[pageHeader+i*elementSize+8:])
		if err := c.subtree(child, childLow, childHigh); err != nil {
			return err
		}
	}
	return nil
}

// nested checks the bucket whose header (and page, when it has but one) is value.
func (c *checker) nested(value []byte) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("header of %d bytes", len(value))
	}
	if root := native.Uint64(value); root != 0 {
		return c.bucket(root)
	}
	if len(value) < bucketHeader+pageHeader {
		return fmt.Errorf("inline page of %d bytes", len(value)-bucketHeader)
	}
	inline := value[bucketHeader:]
	if flags := native.Uint16(inline[8:]); flags != leafPage {
		return fmt.Errorf("inline page with flags %#x", flags)
	}
	return c.node(inline, nil, nil)
}

// freelist checks the list of free pages: after the tree, so that no page is both free and in use.
func (c *checker) freelist(id uint64) error {
	b, err := c.page(id)
	if err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	if flags := native.Uint16(b[8:]); flags != freelistPage {
		return fmt.Errorf("freelist: page %d: flags %#x", id, flags)
	}
	count, b := uint64(native.Uint16(b[10:])), b[pageHeader:]
	if count == manyFreePages {
		count, b = native.Uint64(b), b[freelistIDSize:]
	}
	if count > uint64(len(b)/freelistIDSize) {
		return fmt.Errorf("freelist: %d pages in %d bytes", count, len(b))
	}
	for i := range count {
		free := native.Uint64(b[i*freelistIDSize:])
		if free < firstDataPage || free >= uint64(len(c.seen)) || c.seen[free] {
			return fmt.Errorf("freelist: page %d: in use or not there", free)
		}
		c.seen[free] = true
	}
	return nil
}
