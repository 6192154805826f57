// Calls every method that go-redis has for the module's commands, and checks the replies as the client decodes them.
//
// usage: program port protocol kind [cutter]
//
// The kind is the server's bf.bloom-new-filters. With `redisbloom`, filters have RedisBloom's sizes, and the capacity of
// new ones is 100. The cutter is the port of a proxy that cuts connections to the server.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	ctx            = context.Background()
	passed, failed int
	calls          = map[string]bool{}
)

// Notes the name of a method that is about to be called.
func called[Method any](method Method) Method {
	name := runtime.FuncForPC(reflect.ValueOf(method).Pointer()).Name()
	calls[strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")] = true
	return method
}

// Counts a check that stands in the caller's caller.
func check(right bool, found, wanted any) {
	if right {
		passed++
		return
	}
	failed++
	_, file, line, _ := runtime.Caller(2)
	fmt.Printf("%s:%d: got %v, want %v\n", filepath.Base(file), line, found, wanted)
}

// Takes the result of a command, which has to be a value. NaN equals NaN.
func gives[Value any](wanted Value) func(Value, error) {
	return func(found Value, err error) {
		if err != nil {
			check(false, err, wanted)
		} else {
			check(fmt.Sprintf("%#v", found) == fmt.Sprintf("%#v", wanted), found, wanted)
		}
	}
}

func fails(text string, err error) {
	check(err != nil && err.Error() == text, err, text)
}

func holds(right bool, found any) {
	check(right, found, "something else")
}

// Copies an object in chunks, as its methods dump and load them.
func travels(
	c *redis.Client, from, to string,
	dump func(context.Context, string, int64) *redis.ScanDumpCmd,
	load func(context.Context, string, int64, any) *redis.StatusCmd,
) {
	for chunk := (redis.ScanDump{}); ; {
		next, err := dump(ctx, from, chunk.Iter).Result()
		if next.Iter == 0 {
			// RedisBloom ends a dump with null where a cuckoo filter ends.
			holds(chunk.Iter > 1 && (err == nil || err == redis.Nil), err)
			return
		}
		gives("OK")(load(ctx, to, next.Iter, next.Data).Result())
		chunk = next
	}
}

func bloom(c *redis.Client, likeRedisBloom bool) {
	gives("OK")(called(c.BFReserve)(ctx, "bf", 0.001, 2000).Result())
	size := called(c.BFInfoSize)(ctx, "bf").Val().Size
	holds(size == 4056 || size > 0 && !likeRedisBloom, size)
	gives(redis.BFInfo{2000, size, 1, 0, 2})(called(c.BFInfo)(ctx, "bf").Result())
	fails("ERR item exists", c.BFReserve(ctx, "bf", 0.001, 2000).Err())

	gives(true)(called(c.BFAdd)(ctx, "bf", "item").Result())
	gives(false)(c.BFAdd(ctx, "bf", "item").Result())
	gives(true)(called(c.BFExists)(ctx, "bf", "item").Result())
	gives(false)(c.BFExists(ctx, "none", "item").Result())
	gives([]bool{false, true, true})(called(c.BFMAdd)(ctx, "bf", "item", 2, 3.5).Result())
	gives([]bool{true, true, true, false})(called(c.BFMExists)(ctx, "bf", "item", 2, 3.5, 4).Result())
	gives(int64(3))(called(c.BFCard)(ctx, "bf").Result())
	gives(int64(0))(c.BFCard(ctx, "none").Result())

	gives(redis.BFInfo{Capacity: 2000})(called(c.BFInfoCapacity)(ctx, "bf").Result())
	gives(redis.BFInfo{Filters: 1})(called(c.BFInfoFilters)(ctx, "bf").Result())
	gives(redis.BFInfo{ItemsInserted: 3})(called(c.BFInfoItems)(ctx, "bf").Result())
	gives(redis.BFInfo{ExpansionRate: 2})(called(c.BFInfoExpansion)(ctx, "bf").Result())
	for field, info := range map[string]redis.BFInfo{
		"CAPACITY": {Capacity: 2000}, "SIZE": {Size: size}, "FILTERS": {Filters: 1},
		"ITEMS": {ItemsInserted: 3}, "EXPANSION": {ExpansionRate: 2},
	} {
		gives(info)(called(c.BFInfoArg)(ctx, "bf", field).Result())
	}
	fails("ERR not found", c.BFInfo(ctx, "none").Err())

	gives("OK")(called(c.BFReserveExpansion)(ctx, "wide", 0.01, 100, 4).Result())
	gives(redis.BFInfo{ExpansionRate: 4})(c.BFInfoExpansion(ctx, "wide").Result())
	gives("OK")(called(c.BFReserveNonScaling)(ctx, "fixed", 1e-9, 1).Result())
	// Its expansion rate is null, which the client takes for an error.
	fails("redis: nil", c.BFInfo(ctx, "fixed").Err())
	gives(true)(c.BFAdd(ctx, "fixed", "item").Result())
	fails("ERR non scaling filter is full", c.BFAdd(ctx, "fixed", "other").Err())
	options := redis.BFReserveOptions{Capacity: 100, Error: 0.01, Expansion: 3}
	gives("OK")(called(c.BFReserveWithArgs)(ctx, "args", &options).Result())
	gives(redis.BFInfo{ExpansionRate: 3})(c.BFInfoExpansion(ctx, "args").Result())

	insert := redis.BFInsertOptions{Capacity: 100, Error: 0.01, Expansion: 3, NoCreate: true}
	fails("ERR not found", called(c.BFInsert)(ctx, "made", &insert, "item").Err())
	insert.NoCreate = false
	gives([]bool{true, true})(c.BFInsert(ctx, "made", &insert, "item", "other").Result())
	insert = redis.BFInsertOptions{Capacity: 5000, Error: 0.5, NoCreate: true}
	gives([]bool{false, true})(c.BFInsert(ctx, "made", &insert, "item", "third").Result())
	gives([]bool{true})(c.BFInsert(ctx, "plain", nil, "item").Result())
	gives([]bool{true})(c.BFInsert(ctx, "still", &redis.BFInsertOptions{NonScaling: true}, "item").Result())
	found := c.BFInfo(ctx, "made").Val()
	gives(redis.BFInfo{100, found.Size, 1, 3, 3})(found, nil)
	if likeRedisBloom {
		gives(redis.BFInfo{100, 240, 1, 1, 2})(c.BFInfo(ctx, "plain").Result())
	}

	travels(c, "bf", "copy", called(c.BFScanDump), called(c.BFLoadChunk))
	gives(c.BFInfo(ctx, "bf").Val())(c.BFInfo(ctx, "copy").Result())
	gives([]bool{true, true, false})(c.BFMExists(ctx, "copy", "item", 3.5, 4).Result())
	fails("ERR received bad data", c.BFLoadChunk(ctx, "bad", 1, "abc").Err())
}

func cuckoo(c *redis.Client) {
	gives("OK")(called(c.CFReserve)(ctx, "cf", 1000).Result())
	gives(redis.CFInfo{1080, 512, 1, 0, 0, 2, 1, 20})(called(c.CFInfo)(ctx, "cf").Result())
	fails("ERR item exists", c.CFReserve(ctx, "cf", 1000).Err())
	fails("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]", c.CFReserve(ctx, "none", 1).Err())
	gives("OK")(called(c.CFReserveExpansion)(ctx, "wide", 1000, 4).Result())
	gives(redis.CFInfo{1080, 512, 1, 0, 0, 2, 4, 20})(c.CFInfo(ctx, "wide").Result())
	gives("OK")(called(c.CFReserveBucketSize)(ctx, "deep", 1000, 4).Result())
	gives(redis.CFInfo{1080, 256, 1, 0, 0, 4, 1, 20})(c.CFInfo(ctx, "deep").Result())
	gives("OK")(called(c.CFReserveMaxIterations)(ctx, "long", 1000, 10).Result())
	gives(redis.CFInfo{1080, 512, 1, 0, 0, 2, 1, 10})(c.CFInfo(ctx, "long").Result())
	options := redis.CFReserveOptions{Capacity: 2048, BucketSize: 3, MaxIterations: 15, Expansion: 2}
	gives("OK")(called(c.CFReserveWithArgs)(ctx, "args", &options).Result())
	gives(redis.CFInfo{3128, 1024, 1, 0, 0, 3, 2, 15})(c.CFInfo(ctx, "args").Result())

	gives(true)(called(c.CFAdd)(ctx, "cf", "item").Result())
	gives(true)(c.CFAdd(ctx, "cf", "item").Result())
	gives(false)(called(c.CFAddNX)(ctx, "cf", "item").Result())
	gives(true)(c.CFAddNX(ctx, "cf", 2).Result())
	gives(int64(2))(called(c.CFCount)(ctx, "cf", "item").Result())
	gives(true)(called(c.CFExists)(ctx, "cf", 2).Result())
	gives([]bool{true, true, false})(called(c.CFMExists)(ctx, "cf", "item", 2, 3).Result())
	gives(true)(called(c.CFDel)(ctx, "cf", "item").Result())
	gives(false)(c.CFDel(ctx, "cf", "other").Result())
	fails("Not found", c.CFDel(ctx, "none", "item").Err())
	gives(redis.CFInfo{1080, 512, 1, 2, 1, 2, 1, 20})(c.CFInfo(ctx, "cf").Result())
	fails("ERR not found", c.CFInfo(ctx, "none").Err())

	insert := redis.CFInsertOptions{Capacity: 3000, NoCreate: true}
	fails("ERR not found", called(c.CFInsert)(ctx, "made", &insert, "item").Err())
	fails("ERR not found", called(c.CFInsertNX)(ctx, "made", &insert, "item").Err())
	insert.NoCreate = false
	gives([]bool{true, true})(c.CFInsert(ctx, "made", &insert, "item", "item").Result())
	gives([]int64{0, 1, 0})(c.CFInsertNX(ctx, "made", &insert, "item", "other", "other").Result())
	gives(redis.CFInfo{4152, 2048, 1, 3, 0, 2, 1, 20})(c.CFInfo(ctx, "made").Result())

	travels(c, "cf", "copy", called(c.CFScanDump), called(c.CFLoadChunk))
	gives(c.CFInfo(ctx, "cf").Val())(c.CFInfo(ctx, "copy").Result())
	gives([]bool{true, true, false})(c.CFMExists(ctx, "copy", "item", 2, 3).Result())
	fails("Invalid header", c.CFLoadChunk(ctx, "bad", 1, "abc").Err())
	fails("Invalid position", c.CFScanDump(ctx, "cf", -1).Err())
}

func countMin(c *redis.Client) {
	gives("OK")(called(c.CMSInitByDim)(ctx, "cms", 1000, 5).Result())
	fails("CMS: key already exists", c.CMSInitByDim(ctx, "cms", 1000, 5).Err())
	fails("CMS: invalid width", c.CMSInitByDim(ctx, "none", 0, 5).Err())
	gives("OK")(called(c.CMSInitByProb)(ctx, "prob", 0.002, 0.01).Result())
	gives(redis.CMSInfo{Width: 1000, Depth: 7})(called(c.CMSInfo)(ctx, "prob").Result())
	gives([]int64{5, 7})(called(c.CMSIncrBy)(ctx, "cms", "a", 5, "b", 7).Result())
	gives([]int64{5, 7, 0})(called(c.CMSQuery)(ctx, "cms", "a", "b", "c").Result())
	gives(redis.CMSInfo{Width: 1000, Depth: 5, Count: 12})(c.CMSInfo(ctx, "cms").Result())
	fails("CMS: key does not exist", c.CMSInfo(ctx, "none").Err())
	fails("CMS: key does not exist", c.CMSQuery(ctx, "none", "a").Err())

	for _, key := range []string{"second", "sum"} {
		gives("OK")(c.CMSInitByDim(ctx, key, 1000, 5).Result())
	}
	gives([]int64{1})(c.CMSIncrBy(ctx, "second", "a", 1).Result())
	gives("OK")(called(c.CMSMerge)(ctx, "sum", "cms", "second").Result())
	gives([]int64{6, 7})(c.CMSQuery(ctx, "sum", "a", "b").Result())
	weights := map[string]int64{"cms": 2, "second": 3}
	gives("OK")(called(c.CMSMergeWithWeight)(ctx, "sum", weights).Result())
	gives([]int64{13, 14})(c.CMSQuery(ctx, "sum", "a", "b").Result())
	fails("CMS: width/depth is not equal", c.CMSMerge(ctx, "sum", "prob").Err())
}

func topK(c *redis.Client) {
	gives("OK")(called(c.TopKReserve)(ctx, "topk", 2).Result())
	gives(redis.TopKInfo{2, 8, 7, 0.9})(called(c.TopKInfo)(ctx, "topk").Result())
	fails("TopK: key already exists", c.TopKReserve(ctx, "topk", 2).Err())
	fails("TopK: invalid k", c.TopKReserve(ctx, "none", 0).Err())
	// With a decay of 1 no item takes the place of another.
	gives("OK")(called(c.TopKReserveWithOptions)(ctx, "sure", 3, 1500, 8, 1).Result())
	gives(redis.TopKInfo{3, 1500, 8, 1})(c.TopKInfo(ctx, "sure").Result())
	gives([]string{"", "", "", ""})(called(c.TopKAdd)(ctx, "sure", "a", "b", 3, "a").Result())
	gives([]string{"", "3"})(called(c.TopKIncrBy)(ctx, "sure", "b", 9, "c", 4).Result())
	gives([]bool{true, true, false, true})(called(c.TopKQuery)(ctx, "sure", "a", "b", 3, "c").Result())
	gives([]int64{2, 10, 4, 0})(called(c.TopKCount)(ctx, "sure", "a", "b", "c", "d").Result())
	gives([]string{"b", "c", "a"})(called(c.TopKList)(ctx, "sure").Result())
	counts := map[string]int64{"a": 2, "b": 10, "c": 4}
	gives(counts)(called(c.TopKListWithCount)(ctx, "sure").Result())
	fails("TopK: key does not exist", c.TopKAdd(ctx, "none", "a").Err())
	fails("TopK: key does not exist", c.TopKInfo(ctx, "none").Err())
}

func tDigest(c *redis.Client) {
	nan, infinity := math.NaN(), math.Inf(1)
	gives("OK")(called(c.TDigestCreate)(ctx, "td").Result())
	gives(redis.TDigestInfo{100, 610, 0, 0, 0, 0, 0, 0, 9840})(called(c.TDigestInfo)(ctx, "td").Result())
	fails("ERR T-Digest: key already exists", c.TDigestCreate(ctx, "td").Err())
	gives(nan)(c.TDigestMax(ctx, "td").Result())
	gives(nan)(c.TDigestMin(ctx, "td").Result())
	gives(nan)(c.TDigestTrimmedMean(ctx, "td", 0.1, 0.6).Result())
	gives([]float64{nan, nan})(c.TDigestQuantile(ctx, "td", 0.1, 0.2).Result())
	gives([]float64{nan})(c.TDigestByRank(ctx, "td", 0).Result())
	gives([]int64{-2})(c.TDigestRank(ctx, "td", 10).Result())

	gives("OK")(called(c.TDigestAdd)(ctx, "td", 10, 20, 30, 40, 50, 60, 70, 80, 90, 100).Result())
	gives([]float64{10, 20, 30, infinity})(called(c.TDigestByRank)(ctx, "td", 0, 1, 2, 10).Result())
	gives([]float64{100, 90, -infinity})(called(c.TDigestByRevRank)(ctx, "td", 0, 1, 10).Result())
	gives([]float64{0, 0.1, 0.3, 0.65, 1})(called(c.TDigestCDF)(ctx, "td", 5, 15, 35, 70, 101).Result())
	gives(100.0)(called(c.TDigestMax)(ctx, "td").Result())
	gives(10.0)(called(c.TDigestMin)(ctx, "td").Result())
	gives([]float64{20, 30, 100})(called(c.TDigestQuantile)(ctx, "td", 0.1, 0.2, 1).Result())
	gives([]int64{-1, 0, 1, 10})(called(c.TDigestRank)(ctx, "td", 1, 10, 20, 101).Result())
	gives([]int64{10, 9, 8, -1})(called(c.TDigestRevRank)(ctx, "td", 1, 10, 20, 101).Result())
	gives(40.0)(called(c.TDigestTrimmedMean)(ctx, "td", 0.1, 0.6).Result())
	fails("ERR T-Digest: quantile should be in [0,1]", c.TDigestQuantile(ctx, "td", 2).Err())

	gives("OK")(called(c.TDigestCreateWithCompression)(ctx, "fine", 1000).Result())
	gives("OK")(c.TDigestAdd(ctx, "fine", 5.5, 140).Result())
	options := redis.TDigestMergeOptions{Compression: 500}
	gives("OK")(called(c.TDigestMerge)(ctx, "sum", &options, "td", "fine").Result())
	info := c.TDigestInfo(ctx, "sum").Val()
	gives([]int64{500, 3010, 12, 48240})([]int64{info.Compression, info.Capacity, info.Observations, info.MemoryUsage}, nil)
	gives("OK")(c.TDigestMerge(ctx, "sum", &redis.TDigestMergeOptions{Override: true}, "fine").Result())
	gives([]float64{5.5, 140})(c.TDigestByRank(ctx, "sum", 0, 1).Result())
	gives("OK")(called(c.TDigestReset)(ctx, "td").Result())
	gives(int64(0))(c.TDigestInfo(ctx, "td").Val().Observations, nil)
	fails("ERR T-Digest: key does not exist", c.TDigestInfo(ctx, "none").Err())
	fails("ERR T-Digest: key does not exist", c.TDigestMerge(ctx, "sum", nil, "none").Err())
}

// Fails if a method of the five families was not called: those of the interface, and any that only the client has.
func everyMethodWasCalled() {
	family := regexp.MustCompile("^(BF|CF|CMS|TopK|TDigest)[A-Z]")
	for _, methods := range []reflect.Type{
		reflect.TypeFor[redis.ProbabilisticCmdable](), reflect.TypeFor[*redis.Client](),
	} {
		for i := range methods.NumMethod() {
			name := methods.Method(i).Name
			if methods.Kind() == reflect.Interface || family.MatchString(name) {
				check(calls[name], "no call of "+name, "one")
			}
		}
	}
}

func main() {
	likeRedisBloom := os.Args[3] == "redisbloom"
	protocol, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, MaxRetries: -1})
	for _, family := range []func(){
		func() { bloom(c, likeRedisBloom) },
		func() { cuckoo(c) },
		func() { countMin(c) },
		func() { topK(c) },
		func() { tDigest(c) },
		func() { compatibility(c, protocol, likeRedisBloom) },
	} {
		gives("OK")(c.FlushAll(ctx).Result())
		family()
	}
	everyMethodWasCalled()
	if len(os.Args) > 4 {
		gives("OK")(c.FlushAll(ctx).Result())
		cuts(c, redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[4], Protocol: protocol}))
	}
	fmt.Println(passed, "passed")
	if failed > 0 {
		os.Exit(1)
	}
}
